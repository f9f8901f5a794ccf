"use strict";
// Keys, the search among names, the keys' overlay. Every answer is a plain form that works without
// this file. Text from the data only ever becomes a text node, never markup.

(() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Sentences that were there when the page came are not read out; ones that change are.
  const told = find("[data-told]");
  const tell = (words) => {
    if (!told) return;
    told.textContent = "";
    setTimeout(() => { told.textContent = words; }, 120);
  };
  const said = find("[data-said]");
  if (said) tell(said.textContent);

  // A page that comes back from the history shows what was, with a key that has been used.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // ---- Forms: once only
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
  });
  for (const field of all("select[data-go]")) {
    field.addEventListener("change", () => field.form.requestSubmit());
  }

  // Filters would fill a phone: there they open on demand.
  if (matchMedia("(max-width: 60rem)").matches) {
    for (const box of all("details[data-narrow=closed]")) box.open = false;
  }

  // ---- Keys
  const STORED = "npugraph-keys";
  const remember = {
    get: () => { try { return localStorage.getItem(STORED) !== "off"; } catch { return true; } },
    set: (on) => { try { localStorage.setItem(STORED, on ? "on" : "off"); } catch { /* no storage */ } },
  };
  let keysOn = remember.get();
  const overlay = find("dialog#keys");
  const typing = (target) => target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select");

  const PANELS = ".answers > details, .smaller > details";
  const opened = () => all(PANELS).filter((panel) => panel.open);
  const openPanel = (panel) => {
    for (const other of opened()) if (other !== panel) other.open = false;
    panel.open = true;
    const field = find("[data-first]", panel);
    field.focus();
    field.select();
  };
  const closePanels = () => {
    const [open] = opened();
    if (!open) return false;
    open.open = false;
    find("summary", open).focus();
    return true;
  };
  const act = (key) => {
    const target = find(`[data-key="${CSS.escape(key)}"]`);
    if (!target) return false;
    if (target instanceof HTMLDetailsElement) openPanel(target);
    else if (target instanceof HTMLOptionElement) {
      target.selected = true;
      badge();
      tell(`How sure you are: ${target.textContent.trim()}.`);
    } else target.click();
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (overlay && overlay.open) return;
      if (closePanels()) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!keysOn || typing(event.target) || (overlay && overlay.open)) return;
    if (event.key === "?" && overlay) {
      overlay.showModal();
      event.preventDefault();
    } else if (event.key.length === 1 && event.key !== " " && act(event.key.toLowerCase())) {
      event.preventDefault();
    }
  });

  for (const panel of all(PANELS)) {
    panel.addEventListener("toggle", () => {
      if (panel.open && !panel.contains(document.activeElement.closest("input, textarea, select"))) openPanel(panel);
    });
    // Enter in a field means this panel's own button.
    panel.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.defaultPrevented || !event.target.matches("input")) return;
      event.preventDefault();
      find("button[name=answer]", panel).click();
    });
  }

  // What is kept with the answer is seen when its panel is closed, too.
  const note = find("textarea[name=note]");
  const sure = find("select[name=confidence]");
  function badge() {
    const parts = [note.value.trim(), sure.value && sure.selectedOptions[0].textContent.trim()];
    find("[data-badge]").textContent = parts.filter(Boolean).join(" · ");
  }
  if (note) {
    note.addEventListener("input", badge);
    sure.addEventListener("change", badge);
    badge();
  }

  if (overlay) {
    for (const button of all("[data-open=keys]")) {
      button.hidden = false;
      button.addEventListener("click", () => overlay.showModal());
    }
    const switched = find("[data-switch]", overlay);
    switched.checked = keysOn;
    switched.addEventListener("change", () => { keysOn = switched.checked; remember.set(keysOn); });
    overlay.addEventListener("click", (event) => { if (event.target === overlay) overlay.close(); });
  }

  // ---- Commands to copy
  for (const button of all("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(find("code", button.parentElement).textContent);
        tell("Copied.");
        button.textContent = "Copied";
      } catch {
        tell("The browser does not allow copying; select the text instead.");
      }
    });
  }

  // ---- Choosing a name: the pattern "combobox with a list", by the keys that people know
  for (const field of all("input[role=combobox]")) combobox(field);

  function combobox(field) {
    const list = document.getElementById(field.getAttribute("aria-controls"));
    // The name itself: a text field cannot hold a line end, and shows a label in its place.
    const exact = document.createElement("input");
    exact.type = "hidden";
    exact.name = `${field.name}_exact`;
    field.after(exact);
    let found = [];
    let at = -1;
    let asked = 0;
    let timer = 0;

    const show = (open) => {
      list.hidden = !open;
      field.setAttribute("aria-expanded", String(open));
      if (!open) mark(-1);
    };
    const mark = (place) => {
      at = place;
      all("[role=option]", list).forEach((item, i) => {
        item.setAttribute("aria-selected", String(i === at));
        if (i === at) item.scrollIntoView({ block: "nearest" });
      });
      if (at < 0) field.removeAttribute("aria-activedescendant");
      else field.setAttribute("aria-activedescendant", `${list.id}-${at}`);
    };
    const take = (place) => {
      field.value = found[place].shown;
      exact.value = encodeURIComponent(found[place].name);
      show(false);
    };
    const fill = () => {
      list.replaceChildren(...found.map((one, i) => {
        const item = document.createElement("li");
        item.id = `${list.id}-${i}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", "false");
        const label = document.createElement("bdi");
        label.textContent = one.shown;
        item.append(label);
        // Not click: the field would lose the focus first, and the list close.
        item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(i); });
        return item;
      }));
      show(found.length > 0);
      tell(found.length ? `${found.length} found.` : "Nothing found.");
    };
    const ask = async () => {
      const mine = ++asked;
      const address = `/names?of=${field.dataset.of}&text=${encodeURIComponent(field.value)}`;
      try {
        const answer = await fetch(address, { headers: { accept: "application/json" } });
        const names = (await answer.json()).names;
        // An older question may be answered later.
        if (mine === asked && document.activeElement === field) { found = names; fill(); }
      } catch { tell("The desk does not answer; is it still running?"); }
    };

    field.addEventListener("input", () => {
      exact.value = "";
      clearTimeout(timer);
      if (!field.value.trim()) { found = []; show(false); return; }
      timer = setTimeout(ask, 120);
    });
    field.addEventListener("blur", () => show(false));
    field.addEventListener("keydown", (event) => {
      const open = !list.hidden;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (!open) { if (field.value.trim()) ask(); return; }
        const step = event.key === "ArrowDown" ? 1 : -1;
        mark((at + step + found.length) % found.length);
      } else if (event.key === "Enter" && open && at >= 0) {
        event.preventDefault();
        take(at);
      } else if (event.key === "Escape" && open) {
        event.preventDefault();
        event.stopPropagation();
        show(false);
      }
    });
  }
})();

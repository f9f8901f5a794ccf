"use strict";
// Search, filter, sort and page the review lists. Text from the data only ever becomes a text
// node or an attribute value, never markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function drawn(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // Lower case without accents, so that "osterreich" finds "Österreich".
  function plain(text) {
    return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  }

  // A name as it is shown: its label or short IRI where it has one, cut where it is long.
  function readable(name, limits) {
    return shorten(Object.hasOwn(limits.names, name) ? limits.names[name] : name, limits);
  }

  // The start and the end of a long name; names.shorten does the same. Characters, not halves of
  // them, are counted, but those beyond what can be shown are not looked at.
  function shorten(text, limits) {
    if (text.length <= limits.shown) return text;
    const start = [...text.slice(0, 2 * limits.shown)], end = [...text.slice(-2 * limits.shown)];
    if (text.length <= 2 * limits.shown && start.length <= limits.shown) return text;
    const tail = Math.floor(limits.shown / 4);
    return `${start.slice(0, limits.shown - tail - 1).join("")}…${end.slice(-tail).join("")}`;
  }

  function label(text, limits) {
    if (!text) return make("span", { class: "label quiet" }, "(empty)");
    const shown = readable(text, limits);
    // A line may break after the signs that join the words of paths and IRIs.
    const pieces = shown.split(/(?<=[/_#:.])(?=[^/_#:.])/).flatMap((piece) => [make("wbr"), piece]);
    const cut = shown === text ? {} : { title: text.slice(0, limits.title) };
    return make("bdi", { class: "label", ...cut }, ...pieces.slice(1));
  }

  // The same drawing as charts.range_bar on the track 0..1.
  function rangeBar(row) {
    const place = (value) => 2 + 96 * value;
    const bar = drawn("svg", {
      class: "rangebar", width: "100%", height: 14, "aria-hidden": "true", focusable: "false",
    });
    bar.append(drawn("rect", { class: "track", x: 0, y: 6, width: "100%", height: 2, rx: 1 }));
    if (row.low !== null) {
      const width = Math.max(place(row.high) - place(row.low), 0.5);
      bar.append(drawn("rect", { class: "range", x: `${place(row.low)}%`, y: 5, width: `${width}%`, height: 4, rx: 2 }));
    }
    bar.append(drawn("circle", { class: "dot", cx: `${place(row.probability)}%`, cy: 7, r: 3.5 }));
    return bar;
  }

  // One builder per column: the cell's children.
  const cells = {
    rank: (row) => [String(row.rank)],
    head: (row, limits) => [label(row.head, limits)],
    relation: (row, limits) => [label(row.relation, limits)],
    tail: (row, limits) => [label(row.tail, limits), ...(row.mark ? [" ", make("bdi", { class: "mark" }, row.mark)] : [])],
    probability: (row) => [
      make("span", { class: "figure" }, row.shown),
      ...(row.interval ? [" ", make("span", { class: "quiet" }, row.interval)] : []),
      ...(row.probability === null ? [] : [rangeBar(row)]),
    ],
    score: (row) => [row.scoreShown],
    correction: (row, limits) => row.correction === null
      ? [make("span", { class: "quiet" }, "none")]
      : [make("span", { class: "side" }, row.side), " ", label(row.correction, limits),
        ...(row.stored ? [" ", make("span", { class: "quiet" }, limits.stored)] : [])],
  };

  function compare(key, sign) {
    return (a, b) => {
      let order = 0;
      if (key === "evidence") {
        order = sign * (a.sentences - b.sentences);
      } else if (typeof (a[key] ?? b[key]) === "number") {
        order = sign * (a[key] - b[key]);
      } else if (a[key] === null || b[key] === null) {
        // Rows without a correction stay at the end, whichever way the others are sorted.
        order = (a[key] === null) - (b[key] === null);
      } else {
        order = sign * collator.compare(a[key], b[key]);
      }
      return order || a.rank - b.rank;
    };
  }

  function asTsv(rows, withCorrection) {
    const clean = (value) => String(value ?? "").replace(/[\t\r\n]+/g, " ");
    const names = ["rank", "head", "relation", "tail", "probability", "low", "high", "score"];
    if (withCorrection) names.push("side", "correction", "stored");
    const lines = rows.map((row) => names.map((name) => clean(row[name])).join("\t"));
    return [names.join("\t"), ...lines].join("\n") + "\n";
  }

  class ReviewList {
    constructor(section) {
      const payload = JSON.parse(section.querySelector("script.rows").textContent);
      this.section = section;
      this.name = payload.name;
      this.groups = payload.groups;
      this.limits = payload.limits;
      this.rows = payload.rows;
      this.nouns = section.dataset.nouns.split("|");
      this.table = section.querySelector("table");
      this.body = this.table.tBodies[0];
      this.headers = [...this.table.tHead.rows[0].cells];
      this.columns = this.headers.map((header) => [header.dataset.key, header.dataset.label ?? header.textContent]);
      this.tools = Object.fromEntries(
        [...section.querySelectorAll("[data-tool]")].map((tool) => [tool.dataset.tool, tool]));
      this.open = new Set();
      this.key = "rank";
      this.sign = 1;
      this.page = 0;
      for (const row of this.rows) {
        for (const key of ["head", "relation", "tail", "correction"]) {
          if (typeof row[key] === "number") row[key] = payload.names[row[key]];
        }
        const searched = [row.head, row.relation, row.tail].flatMap((name) =>
          [name.slice(0, this.limits.title), readable(name, this.limits)]);
        row.text = plain(searched.join("\n"));
        row.sentences = Object.values(row.evidence).reduce((sum, lines) => sum + lines.length, 0);
      }
      this.fillRelations();
      this.headers.forEach((header) => this.makeSortable(header));
      this.listen();
      for (const part of section.querySelectorAll(".tools, .status, .pager")) part.hidden = false;
      this.select();
    }

    fillRelations() {
      const counts = new Map();
      for (const row of this.rows) counts.set(row.relation, (counts.get(row.relation) ?? 0) + 1);
      const names = [...counts.keys()].sort(collator.compare);
      // The index is the value, so that a relation called "" cannot be mistaken for "all".
      this.relationNames = names;
      this.tools.relation.append(
        make("option", { value: "" }, `all (${names.length.toLocaleString("en")})`),
        ...names.map((name, i) =>
          make("option", { value: i }, `${readable(name, this.limits) || "(empty)"} (${counts.get(name).toLocaleString("en")})`)));
    }

    makeSortable(header) {
      const text = header.textContent;
      const button = make("button", { type: "button", class: "sort" }, text,
        make("span", { class: "arrow", "aria-hidden": "true" }));
      button.addEventListener("click", () => {
        this.sign = this.key === header.dataset.key ? -this.sign : 1;
        this.key = header.dataset.key;
        for (const other of this.headers) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", this.sign > 0 ? "ascending" : "descending");
        this.select();
      });
      header.replaceChildren(button);
    }

    listen() {
      const { tools } = this;
      for (const name of ["search", "relation", "size"]) {
        tools[name].addEventListener("input", () => this.select());
      }
      tools.previous.addEventListener("click", () => this.turn(-1));
      tools.next.addEventListener("click", () => this.turn(1));
      tools.copy.addEventListener("click", () => this.copy());
      tools.download.addEventListener("click", () => this.download());
      this.body.addEventListener("click", (event) => {
        const button = event.target.closest("button.evidence");
        if (button) this.toggle(button);
      });
    }

    filterRelation(name) {
      this.tools.search.value = "";
      this.tools.relation.value = String(this.relationNames.indexOf(name));
      this.select();
    }

    // Find and sort the rows that match, then show their first page.
    select() {
      const words = plain(this.tools.search.value).split(/\s+/).filter(Boolean);
      const chosen = this.tools.relation.value;
      const relation = chosen === "" ? null : this.relationNames[Number(chosen)];
      this.shown = this.rows.filter((row) =>
        (relation === null || row.relation === relation) && words.every((word) => row.text.includes(word)));
      this.shown.sort(compare(this.key, this.sign));
      this.page = 0;
      this.draw();
    }

    pageSize() {
      const size = this.tools.size.value;
      return size === "all" ? Math.max(this.shown.length, 1) : Number(size);
    }

    draw() {
      const size = this.pageSize();
      const start = this.page * size;
      const visible = this.shown.slice(start, start + size);
      const drawnRows = document.createDocumentFragment();
      for (const row of visible) {
        drawnRows.append(this.factRow(row));
        if (this.open.has(row.rank)) drawnRows.append(this.evidenceRow(row));
      }
      if (!visible.length) {
        drawnRows.append(make("tr", { role: "row", class: "nothing" },
          make("td", { role: "cell", colspan: this.columns.length }, `No ${this.nouns[1]} match.`)));
      }
      this.body.replaceChildren(drawnRows);
      this.describe(start, visible.length, size);
    }

    describe(start, number, size) {
      const { tools, shown, rows, nouns } = this;
      const say = (n) => n.toLocaleString("en");
      const noun = shown.length === 1 ? nouns[0] : nouns[1];
      const of = shown.length < rows.length ? ` (${say(rows.length)} in all)` : "";
      tools.count.textContent = number
        ? `Rows ${say(start + 1)}–${say(start + number)} of ${say(shown.length)} ${noun}${of}`
        : `0 ${nouns[1]}${of}`;
      const pages = Math.max(Math.ceil(shown.length / size), 1);
      tools.page.textContent = `Page ${say(this.page + 1)} of ${say(pages)}`;
      // Not "disabled": a disabled button would drop the keyboard's focus.
      tools.previous.setAttribute("aria-disabled", String(this.page === 0));
      tools.next.setAttribute("aria-disabled", String(this.page >= pages - 1));
      tools.next.parentElement.hidden = pages === 1;
      tools.said.textContent = "";
    }

    turn(step) {
      const pages = Math.ceil(this.shown.length / this.pageSize());
      const next = this.page + step;
      if (next < 0 || next >= pages) return;
      this.page = next;
      this.draw();
      this.table.scrollIntoView({ block: "start" });
    }

    factRow(row) {
      const tr = make("tr", { role: "row", class: "fact" });
      for (const [key, title] of this.columns) {
        const children = key === "evidence" ? [this.evidenceButton(row)] : cells[key](row, this.limits);
        tr.append(make("td", { role: "cell", class: `c-${key}`, "data-label": title }, ...children));
      }
      return tr;
    }

    evidenceButton(row) {
      if (!row.sentences) return make("span", { class: "quiet" }, "none");
      const open = this.open.has(row.rank);
      const button = make("button", {
        type: "button", class: "evidence", "data-rank": row.rank, "aria-expanded": String(open),
      }, "Why?", make("span", { class: "unseen" }, ` Evidence for rank ${row.rank}`));
      if (open) button.setAttribute("aria-controls", this.evidenceId(row.rank));
      return button;
    }

    evidenceId(rank) {
      return `${this.name}-evidence-${rank}`;
    }

    evidenceRow(row) {
      const box = make("div", { class: "groups" });
      for (const [key, heading] of Object.entries(this.groups)) {
        const lines = row.evidence[key];
        if (!lines) continue;
        box.append(make("section", { class: `group ${key}` }, make("h4", {}, heading),
          make("ul", {}, ...lines.map((line) => make("li", {}, line)))));
      }
      return make("tr", { role: "row", class: "opened", id: this.evidenceId(row.rank) },
        make("td", { role: "cell", colspan: this.columns.length }, box));
    }

    toggle(button) {
      const rank = Number(button.dataset.rank);
      const tr = button.closest("tr");
      const opening = !this.open.has(rank);
      if (opening) {
        this.open.add(rank);
        tr.after(this.evidenceRow(this.rows[rank - 1]));
        button.setAttribute("aria-controls", this.evidenceId(rank));
      } else {
        this.open.delete(rank);
        tr.nextElementSibling.remove();
        button.removeAttribute("aria-controls");
      }
      button.setAttribute("aria-expanded", String(opening));
    }

    tsv() {
      return asTsv(this.shown, this.columns.some(([key]) => key === "correction"));
    }

    async copy() {
      try {
        await navigator.clipboard.writeText(this.tsv());
        this.tools.said.textContent = `Copied ${this.shown.length.toLocaleString("en")} rows.`;
      } catch {
        this.tools.said.textContent = "The browser does not allow copying here; use the download.";
      }
    }

    download() {
      const url = URL.createObjectURL(new Blob([this.tsv()], { type: "text/tab-separated-values" }));
      make("a", { href: url, download: `${this.name}.tsv` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    }
  }

  const lists = {};
  for (const section of document.querySelectorAll("section.review")) {
    if (section.querySelector("script.rows")) lists[section.id] = new ReviewList(section);
  }
  for (const link of document.querySelectorAll("a[data-relation]")) {
    link.addEventListener("click", () => lists.suspects?.filterRelation(link.dataset.relation));
  }
})();

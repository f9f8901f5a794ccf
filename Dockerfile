# npugraph for the CPU. From the root of the repository:
#
#     docker build -t npugraph .
#     docker run --rm npugraph                      # the demo: plants wrong facts and looks for them
#     docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" npugraph audit facts.tsv --out audit
#
# On Linux pip's usual build of PyTorch brings CUDA's libraries, several gigabytes that nothing here needs.
# PyTorch's installation page names an index of builds for the CPU alone; to take torch from there:
#
#     docker build --build-arg TORCH_INDEX=URL -t npugraph .
FROM python:3.11-slim

WORKDIR /npugraph
COPY constraints.txt ./
ARG TORCH_INDEX=""
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' constraints.txt)"

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt .

# Any user may run it: caches go where everybody may write. Files go in and out through /data.
ENV HOME=/tmp
RUN mkdir -m 1777 /data
WORKDIR /data
USER nobody
ENTRYPOINT ["npugraph"]
CMD ["audit", "--out", "demo"]

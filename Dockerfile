# electrify with everything it needs: `make image`, then `docker run --rm -it -v "$PWD:/data" electrify demo`.
# The torch of PyPI brings CUDA's libraries: with `--gpus all` the same image trains on a GPU.
ARG BASE=python:3.11-slim

FROM ${BASE} AS wheel
COPY constraints.txt /tmp/constraints.txt
RUN python3 -m venv /venv && /venv/bin/pip install --no-cache-dir -c /tmp/constraints.txt hatchling
COPY . /source
RUN cd /source && /venv/bin/python -m hatchling build -t wheel -d /wheel

FROM ${BASE}
# torch.compile makes its kernels with a C++ compiler
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/electrify
ENV PATH=/opt/electrify/bin:$PATH
COPY constraints.txt /opt/constraints.txt
# the large libraries first: this layer stays when only our code changes
RUN pip install --no-cache-dir -c /opt/constraints.txt torch transformers datasets apache-beam
COPY --from=wheel /wheel /opt/wheel
RUN pip install --no-cache-dir -c /opt/constraints.txt "$(ls /opt/wheel/*.whl)[all]"
# caches go to the folder of the user, whoever that is
ENV HOME=/data
WORKDIR /data
ENTRYPOINT ["electrify"]
CMD ["--help"]

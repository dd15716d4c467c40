# docker build -t refract . && docker run --rm refract      computes every number: `make repro`, without a GPU
# docker run --rm -it refract bash                          a shell in the set up clone
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home reader && install --directory --owner reader /refract
USER reader
WORKDIR /refract
# Docker has no GPU unless it is told of one; this index has builds for processors alone, of the same release.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
COPY --chown=reader . .
RUN make setup
CMD ["make", "repro"]

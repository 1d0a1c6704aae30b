# Sourced by the scripts of clusters.
set -euo pipefail

# Outside the clone, so that one run's build serves the next.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/paddlecloud

# Installs Debian packages: install_packages COMMAND PACKAGE [COMMAND PACKAGE…]
install_packages() {
    local missing=()
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -eq 0 ] && return
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Prints so many ports that are free now.
free_ports() {
    python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(each.getsockname()[1] for each in sockets))
PYTHON
}

# Ends the processes whose ids are in files, and waits for them: end_processes FILE…
end_processes() {
    local file pid
    for file in "$@"; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
}

# Waits for a command to succeed while a process lives: await PID LOG COMMAND…
await() {
    local pid=$1 log=$2
    shift 2
    for _ in $(seq 1200); do
        if "$@" >/dev/null 2>&1; then return; fi
        if ! kill -0 "$pid" 2>/dev/null; then
            echo "it ended instead of serving:" >&2
            tail -n 20 "$log" >&2
            return 1
        fi
        sleep 0.1
    done
    echo "it does not serve after two minutes:" >&2
    tail -n 20 "$log" >&2
    return 1
}

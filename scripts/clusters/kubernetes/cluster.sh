#!/bin/bash
# A real Kubernetes with Volcano, in network, PID and mount namespaces of its own.
#
#   cluster.sh install        install the Debian packages (needs apt)
#   cluster.sh build          build the programs from Go modules and make the two test images
#   cluster.sh up             start; NODES=2 starts two nodes, KUBE_PORT=6443 fixes the port
#   cluster.sh down           stop and remove everything but the logs
#   cluster.sh kubeconfig     print the path of the kubeconfig; it works inside and outside
#   cluster.sh kubectl ARGS   run kubectl from outside
#   cluster.sh exec COMMAND   run a command inside the namespaces, where pods and services have addresses and names
#   cluster.sh load ARCHIVE…  import image archives (docker save or OCI layout) into every node
#   cluster.sh logs [NAME]    list the logs, or print the end of one (tail's options may follow, such as -f)
#
# All files are under KUBE_HOME (default ${XDG_CACHE_HOME:-~/.cache}/paddlecloud/kubernetes).
. "$(dirname "$(realpath "$0")")/common.sh"

is_installed() {
  local program
  for program in etcd containerd ctr runc iptables conntrack ip unshare sysctl openssl python3 gcc curl; do
    command -v "$program" >/dev/null || return
  done
  [ -x /usr/lib/cni/ptp ] && [ -e /usr/include/stdio.h ]
}

install() {
  need_root
  if ! is_installed; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --no-upgrade \
      etcd-server containerd runc containernetworking-plugins iptables conntrack \
      iproute2 util-linux procps openssl python3 gcc libc6-dev curl
  fi
  # Unpacked, not installed: busybox and busybox-static exclude each other, and the static one crashes in getaddrinfo.
  local directory=$KUBE_HOME/images/busybox
  [ -x "$directory/bin/busybox" ] && return
  mkdir -p "$directory"
  (cd "$KUBE_HOME/images" && apt-get download busybox && dpkg -x busybox_*.deb busybox && rm busybox_*.deb)
}

up() {
  need_root
  need_programs
  need_place
  lock
  if init_pid >/dev/null && [ -e "$RUN/ready" ] && kubectl get --raw /readyz --request-timeout=10s >/dev/null 2>&1; then
    echo "already up: $(server)"
    return
  fi
  remove # what a crash or an interrupted start left
  mkdir -m 700 "$RUN" # it holds the keys
  rm -rf "$LOG"
  mkdir "$LOG"
  start_namespaces
  if ! enter "$HERE/boot.sh"; then
    remove
    die "the cluster did not start; the logs are in $LOG"
  fi
  touch "$RUN/ready"
  echo "up: $(server)"
}

# The listening socket is made here, outside, and inherited by the forwarder inside.
start_namespaces() {
  setsid "$HERE/forward.py" open "${KUBE_PORT:-0}" "$RUN/port" \
    unshare --net --pid --mount --mount-proc --fork --kill-child "$HERE/init.sh" "$KUBE_HOME" \
    </dev/null >"$LOG/init.log" 2>&1 9>&- &
  local outer=$! deadline=$((SECONDS + 20))
  echo "$outer" >"$RUN/outer.pid"
  until [ -e "$RUN/namespaces" ]; do
    # On a busy machine it may not have become the command yet by which `outer_pid` knows it.
    if ! kill -0 "$outer" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
      cat "$LOG/init.log" >&2
      remove
      die "cannot make the namespaces"
    fi
    sleep 0.1
  done
}

down() {
  need_root
  lock
  remove
}

# Killing PID 1 of the PID namespace kills all processes in it; mounts and network go with the last one.
remove() {
  local pid deadline=$((SECONDS + 30))
  if pid=$(init_pid); then
    kill -KILL "$pid" 2>/dev/null || true # it may be ending already
    while [ -d "/proc/$pid" ]; do
      [ $SECONDS -lt $deadline ] || die "process $pid does not end"
      sleep 0.1
    done
  elif pid=$(outer_pid); then
    kill -KILL "$pid" 2>/dev/null || true
  fi
  until remove_cgroups; do
    [ $SECONDS -lt $deadline ] || die "cannot remove the cgroups named $CGROUP"
    sleep 0.2
  done
  rm -rf --one-file-system "$RUN"
}

remove_cgroups() {
  local hierarchy directory left=0
  for hierarchy in $(cgroup_hierarchies); do
    directory=$hierarchy/$CGROUP
    [ ! -d "$directory" ] || find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
  done
  return $left
}

load() {
  local archive socket import imports=()
  need_cluster
  for archive in "$@"; do
    # All nodes at once: each unpacks for itself.
    for socket in "$RUN"/node*/containerd.sock; do
      ctr -a "$socket" -n k8s.io images import "$archive" &
      imports+=($!)
    done
  done
  for import in "${imports[@]}"; do wait "$import"; done
}

logs() {
  if [ $# -eq 0 ]; then
    (cd "$LOG" && ls -lh -- *.log)
  else
    tail -n 100 "${@:2}" "$LOG/$1.log"
  fi
}

outer_pid() { # prints the PID of the unshare that made the namespaces, if it lives
  local pid
  pid=$(cat "$RUN/outer.pid" 2>/dev/null) &&
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "init.sh $KUBE_HOME " && echo "$pid"
}

init_pid() { # prints the PID of its child, the namespaces' init, as seen from outside
  local outer child
  outer=$(outer_pid) && child=$(tr -d ' ' 2>/dev/null <"/proc/$outer/task/$outer/children") &&
    [ -n "$child" ] && echo "$child"
}

enter() {
  need_cluster
  nsenter --target "$(init_pid)" --net --pid --mount --wdns="$PWD" -- "$@" 9>&-
}

lock() {
  mkdir -p "$KUBE_HOME"
  exec 9>"$KUBE_HOME/lock"
  flock 9
}

need_root() {
  [ "$(id -u)" -eq 0 ] || die "only root can make the namespaces, mounts and cgroups"
}

need_cluster() {
  init_pid >/dev/null || die "the cluster is not up; run: cluster.sh up"
}

need_place() {
  case $KUBE_HOME/ in
    /run/* | /var/lib/* | /var/log/*) die "KUBE_HOME cannot be under /run, /var/lib or /var/log, which nodes have of their own" ;;
  esac
  [ ${#KUBE_HOME} -le 60 ] || die "KUBE_HOME is longer than 60 characters, too long for the socket paths in it: $KUBE_HOME"
}

need_programs() {
  local program
  for program in etcd containerd ctr runc iptables conntrack ip unshare nsenter openssl python3; do
    command -v $program >/dev/null || die "$program is missing; run: cluster.sh install"
  done
  for program in kube-apiserver kube-controller-manager kubelet kube-proxy kubectl minidns \
    vc-webhook-manager vc-controller-manager vc-scheduler; do
    [ -x "$KUBE_HOME/bin/$program" ] || die "$program is not built; run: cluster.sh build"
  done
  [ -e "$KUBE_HOME/images/pause.tar" ] || die "the test images are not made; run: cluster.sh build"
  grep -q ' cgroup ' /proc/mounts || die "no cgroup v1 hierarchy is mounted"
}

server() { echo "https://127.0.0.1:$(cat "$RUN/port")"; }

verb=${1:-help}
shift || true
case $verb in
  install | up | down | load | logs) "$verb" "$@" ;;
  build) exec "$HERE/build.sh" ;;
  kubeconfig) echo "$KUBECONFIG" ;;
  kubectl) need_cluster && exec kubectl "$@" ;;
  exec) enter "${@:-bash}" ;;
  help | -h | --help) sed -n '2,/^$/{/^#/!d;s/^# \{0,1\}//;p}' "$HERE/cluster.sh" ;;
  *) die "unknown verb '$verb'; run: cluster.sh help" ;;
esac

#!/usr/bin/env bash
# A Docker engine for the tests, where none answers yet: installs it (Debian, as root) and starts it.
#
#   scripts/docker-engine.sh            Docker, and what test images are made of
#   scripts/docker-engine.sh --podman   Podman and bubblewrap as well
#
# Changes nothing where an engine answers already. Ends with 1, and the reason, where this machine cannot have one.
set -u

SOCKET=/var/run/docker.sock
LOG=${NICEEVAL_DOCKER_LOG:-/var/log/niceeval-dockerd.log}
PACKAGES=(busybox-static git)
PROGRAMS=(busybox git)
WITH_PODMAN=""
[ "${1:-}" != --podman ] || WITH_PODMAN=1

say() { echo "docker-engine: $*"; }
cannot() { say "no engine here: $*"; exit 1; }

# Two of these at once (two checkouts) would start two engines.
{ exec 9> "${TMPDIR:-/tmp}/niceeval-docker-engine.lock"; } 2> /dev/null && flock -w 600 9

answers() {
  python3 - "${DOCKER_HOST:-unix://$SOCKET}" 2> /dev/null << 'PYTHON'
import socket, sys
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
if url.scheme == "unix":
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(5)
    link.connect(url.path)
else:
    link = socket.create_connection((url.hostname, url.port or 2375), 5)
    link.settimeout(5)
link.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
sys.exit(b" 200 " not in link.recv(64))
PYTHON
}

install() {
  [ "$(id -u)" = 0 ] || cannot "installing $* takes root; run: sudo scripts/docker-engine.sh"
  command -v apt-get > /dev/null || cannot "this script installs on Debian and its kin only; install $* yourself"
  for try in 1 2 3; do
    if DEBIAN_FRONTEND=noninteractive apt-get update -qq > /dev/null &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null; then
      return 0
    fi
    say "apt-get failed (try $try of 3)"
    sleep $((try * 3))
  done
  return 1
}

# An installed engine is not started by its package here: this script starts it, with its own options.
needed=()
answers || command -v dockerd > /dev/null || needed+=(docker.io iptables)
for number in "${!PROGRAMS[@]}"; do
  command -v "${PROGRAMS[$number]}" > /dev/null || needed+=("${PACKAGES[$number]}")
done
if [ -n "$WITH_PODMAN" ]; then
  command -v podman > /dev/null || needed+=(podman)
  command -v bwrap > /dev/null || needed+=(bubblewrap)
fi
if [ ${#needed[@]} -gt 0 ]; then
  say "installing ${needed[*]}"
  if ! install "${needed[@]}"; then
    command -v dockerd > /dev/null || answers || cannot "apt-get could not install ${needed[*]}"
    say "apt-get could not install ${needed[*]}; going on without"
  fi
fi

if answers; then
  say "an engine answers"
  exit 0
fi
[ "$(id -u)" = 0 ] || cannot "starting dockerd takes root; run: sudo scripts/docker-engine.sh"

# A killed engine leaves files behind that keep the next one from starting.
if ! pgrep -x dockerd > /dev/null; then
  rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid /var/run/docker/containerd/*.sock*
  say "starting dockerd (log: $LOG)"
  # The lock must not live as long as the engine.
  setsid dockerd --mtu 1400 > "$LOG" 2>&1 < /dev/null 9>&- &
fi
for _ in $(seq 600); do
  if answers; then
    say "dockerd answers"
    exit 0
  fi
  sleep 0.1
done
tail -n 5 "$LOG" 2> /dev/null
cannot "dockerd did not answer within a minute"

#!/bin/bash
# For a proof that has run out of time: what the first level is doing, and the last words of everybody in it.
heading() { echo "-- $*"; }
heading "processes and where they wait"
ps -eLo pid,tid,stat,wchan:32,time,args --sort=pid | awk 'NR == 1 || $6 !~ /^\[/' | cut -c1-160
for process in /proc/[0-9]*; do
  grep -q '^State:[[:space:]]*D' "$process/status" 2> /dev/null || continue
  heading "$(cat "$process/comm") cannot be interrupted"
  cat "$process/stack"
done
heading "domains"
timeout 10 virsh list --all
for log in /lab/*.log /var/log/libvirt/qemu/*.log /run/*.log; do
  [ -s "$log" ] && heading "$log" && tail -c 1500 "$log"
done
find / -xdev -name '*.console' -size +0 | while read -r log; do heading "$log"; tail -c 1500 "$log"; done
heading "kernel"
dmesg | tail -n 20

#!/bin/sh
# Kills the servers of a test process and removes their folders when that process is gone, however it ended.
# Standard input: `hold FOLDER` takes a folder into care, `drop FOLDER` releases it; the end of the input means that the
# process is gone. The file `pid` in a folder names the server that runs there, and is missing while none does.
trap '' HUP INT TERM

while IFS=' ' read -r verb folder; do
  case $verb in
    hold) set -- "$@" "$folder" ;;
    drop)
      for held; do
        shift
        [ "$held" = "$folder" ] || set -- "$@" "$held"
      done
      ;;
  esac
done

for held; do
  [ ! -f "$held/pid" ] || kill -KILL "$(cat "$held/pid")" 2>/dev/null
  rm -rf -- "$held"
done

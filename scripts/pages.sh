#!/usr/bin/env bash
# Runs every command of the README and of the pages in docs, as they are written, one after
# the other. A command ends with 0, and one of the plug-in also with 1, where it finds
# something. What cannot be run here stands in the table below, with where else it is.
#
#   scripts/pages.sh CLONE WORK    in the clone, with kubectl and the plug-in in PATH and
#                                  KUBECONFIG for a sandbox; WORK is an empty folder
set -euo pipefail
cd "$1"
work=$2

# Command lines whose beginning stands here are not run: BEGINNING|FILE that runs it, or is
# the list of those who do.
elsewhere='make test|scripts/first-minute.sh
git clone |cmd/ci_test.go
make -C volume-doctor build|cmd/ci_test.go
volume-doctor/bin/kubectl-volume_doctor |cmd/ci_test.go
kubectl logs |testdata/scripts/controller.txtar
kubectl volume-doctor diagnose --controller kcm.log |testdata/scripts/controller.txtar
kubectl get volumes.longhorn.io|e2e/backend
kubectl get tridentvolumes|e2e/backend
kubectl get resources.internal.linstor|e2e/backend
kubectl get cstorvolumeattachments|e2e/backend
kubectl get jivavolumes|e2e/backend
kubectl volume-doctor diagnose --apply --approved |e2e/repair
kubectl volume-doctor undo volume-doctor-|scripts/new-user.sh
helm |e2e/serve/chart_test.go
claude |cmd/mcp_test.go
holmes |scripts/holmes.py
kubectl volume-doctor diagnose -f must-gather|snapshot/bundle_layouts_test.go
kubectl volume-doctor diagnose -f support-bundle|snapshot/bundle_layouts_test.go
kubectl volume-doctor diagnose -f crust-gather|snapshot/bundle_layouts_test.go
kubectl volume-doctor trace pod/web-0 -f cluster-info-dump|snapshot/bundle_layouts_test.go
oc get |snapshot/bundle_layouts_test.go
kubectl get csidrivers,csinodes -o yaml > support-bundle|snapshot/bundle_layouts_test.go'

# Tools of clouds, which print what theirs do of a disk that nobody has.
tool() { printf '#!/bin/sh\ncat <<"END"\n%s\nEND\n' "$2" >"$work/tools/$1" && chmod +x "$work/tools/$1"; }
mkdir -p "$work/tools"
tool aws '{"Volumes": [{"VolumeId": "vol-1", "State": "available", "AvailabilityZone": "eu-1a", "Attachments": []}]}'
tool az '[{"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d", "name": "d", "diskState": "Unattached", "managedBy": null, "location": "westeurope"}]'
tool gcloud '[{"name": "d", "selfLink": "https://www.googleapis.com/compute/v1/projects/p/zones/z/disks/d", "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/z", "status": "READY"}]'
tool openstack '[{"ID": "0b4f4c1e-52b5-4d43-9a0c-4f2d0f6c2a77", "Name": "d", "Status": "available", "Size": 1, "Type": "ssd", "Bootable": "false", "Attached to": [], "Properties": {}}]'
tool hcloud '[{"id": 1, "name": "d", "status": "available", "server": null, "location": {"name": "fsn1"}, "linux_device": "/dev/disk/by-id/scsi-0HC_Volume_1"}]'
export PATH=$work/tools:$PATH

# The clusters of the pages are all this one.
for name in east west staging prod-east prod-west; do
  kubectl config set-context "$name" --cluster="$(kubectl config view --minify -o jsonpath='{.contexts[0].context.cluster}')" \
    --user="$(kubectl config view --minify -o jsonpath='{.contexts[0].context.user}')" >/dev/null
done
GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) # scripts/first-minute.sh has none
export HOME=$work/home GOCACHE GOMODCACHE
mkdir -p "$HOME/clusters"
kubectl config view --minify --raw >"$HOME/clusters/one.yaml"
kubectl apply -f e2e/serve/testdata/crds >/dev/null
kubectl wait --for=condition=Established --timeout=60s -f e2e/serve/testdata/crds >/dev/null
kubectl volume-doctor snapshot snapshot.yaml 2>/dev/null
kubectl volume-doctor snapshot case.yaml.gz 2>/dev/null

# lines FILE: the command lines of the page.
lines() {
  awk '/^```/ {inside = !inside; language = substr($0, 4); next}
    inside && language == "sh" && NF {print}
    inside && language == "console" && /^\$ / {print substr($0, 3)}
    !inside && /^    kubectl / {print substr($0, 5)}' "$1"
}

ran=0 failed=0
run() { # PAGE COMMAND
  local code=0 most=120
  case $2 in
  *' --watch' | *' --listen '*) most=10 ;; # these go on until somebody ends them
  'go run '*) most=600 ;;                  # it is compiled first
  'kubectl delete '*) most=20 ;;           # nobody in the sandbox takes namespaces away
  esac
  timeout --signal INT "$most" bash -euo pipefail -c "$2" >"$work/out" 2>&1 </dev/null || code=$?
  case $code/$most/$2 in
  0/* | 1/*volume-doctor\ * | 1/*'go run . '* | 124/[12]0/* | 130/10/*) ran=$((ran + 1)) ;;
  *)
    failed=$((failed + 1))
    echo "$1: exit code $code: $2" >&2
    head -c 2000 "$work/out" >&2
    ;;
  esac
}
for page in README.md docs/*.md; do
  while IFS= read -r command; do
    while IFS='|' read -r begins where; do
      [ "${command#"$begins"}" = "$command" ] || { test -e "$where" && continue 2; }
    done <<<"$elsewhere"
    echo "[$SECONDS s] $page: $command" | cut -c1-160
    run "$page" "$command"
  done < <(lines "$page")
done
echo "$ran commands of the pages did what they say"
[ $failed = 0 ] && [ $ran -ge 25 ]

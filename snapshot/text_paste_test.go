package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// TestPasted: what people send, in the forms in which they send it. Each is read as the
// objects that it holds, or refused with a line that says what to do.
func TestPasted(t *testing.T) {
	text, err := os.ReadFile("../testdata/bases/running.yaml")
	if err != nil {
		t.Fatal(err)
	}
	base, _, err := Read("base", bytes.NewReader(text), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var items, typed, documents, yamlItems []string
	byKind := map[string]string{} // as kubectl prints each kind
	for _, r := range resources {
		var of, ofYAML []string
		for object := range r.all(&base.Objects) {
			line, err := new(lineEncoder).encode(r, object)
			if err != nil {
				t.Fatal(err)
			}
			item := strings.TrimSpace(strings.TrimPrefix(line, "---\n"))
			fields, err := json.Marshal(json.RawMessage(item))
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(fields, &m); err != nil {
				t.Fatal(err)
			}
			asYAML, err := YAML(m)
			if err != nil {
				t.Fatal(err)
			}
			of, ofYAML = append(of, item), append(ofYAML, string(asYAML))
		}
		if len(of) == 0 {
			continue
		}
		items, documents = append(items, of...), append(documents, ofYAML...)
		typed = append(typed, fmt.Sprintf(`{"kind": "%sList", "apiVersion": %q, "metadata": {}, "items": [%s]}`, r.Object, r.Version, strings.Join(of, ",")))
		list := "apiVersion: v1\nitems:\n"
		for _, y := range ofYAML {
			list += "- " + strings.ReplaceAll(strings.TrimRight(y, "\n"), "\n", "\n  ") + "\n"
		}
		yamlItems = append(yamlItems, list[len("apiVersion: v1\nitems:\n"):])
		byKind[string(r.Kind)] = list + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	}
	indented := func(text string) string {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(text), "", "    "); err != nil {
			t.Fatal(err)
		}
		return b.String() + "\n"
	}
	lines := func(change func(string) string, text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(change(line))
		}
		return b.String()
	}
	in16 := func(text string, big, mark bool) string {
		if mark {
			text = "\ufeff" + text
		}
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune(text)) {
			if big {
				b.Write([]byte{byte(unit >> 8), byte(unit)})
			} else {
				b.Write([]byte{byte(unit), byte(unit >> 8)})
			}
		}
		return b.String()
	}
	jsonList := `{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [` + strings.Join(items, ",") + `]}`
	yamlList := "apiVersion: v1\nitems:\n" + strings.Join(yamlItems, "") + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	var appended, asked, dumped string
	for _, r := range resources {
		if byKind[string(r.Kind)] != "" {
			appended += byKind[string(r.Kind)]
			asked += "admin@bastion:~/tmp$ kubectl get " + string(r.Kind) + " -A -o yaml\n" + byKind[string(r.Kind)]
		}
	}
	for _, list := range typed {
		dumped += indented(list) + "==== START logs for container c of pod shop/web-0 ====\n{\n  kind: [\n==== END logs for container c of pod shop/web-0 ====\n"
	}
	forbidden := "Error from server (Forbidden): leases.coordination.k8s.io is forbidden: User \"dev\" cannot list resource \"leases\" in API group \"coordination.k8s.io\" at the cluster scope\n"
	n := 0
	for _, tt := range []struct {
		name, in string
		refused  string // what it says
		gap      string
	}{
		{name: "a YAML list", in: yamlList},
		{name: "YAML documents", in: strings.Join(documents, "---\n")},
		{name: "a JSON list", in: indented(jsonList)},
		{name: "a JSON list on one line", in: jsonList},
		{name: "a JSON object a line", in: strings.Join(items, "\n")},
		{name: "a JSON array", in: indented("[" + strings.Join(items, ",") + "]")},
		{name: "a JSON array of lists", in: "[" + strings.Join(typed, ",") + "]"},
		{name: "JSON arrays", in: "[" + strings.Join(items[:3], ",") + "]\n[" + strings.Join(items[3:], ",") + "]"},
		{name: "a YAML sequence", in: strings.Join(yamlItems, "")},
		{name: "typed lists", in: strings.Join(typed, "\n")},
		{name: "typed lists in a list", in: `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(typed, ",") + `]}`},
		{name: "lists in lists in YAML", in: "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(yamlList), "\n", "\n  ") + "\n"},
		{name: "a byte order mark", in: "\ufeff" + yamlList},
		{name: "a byte order mark and JSON", in: "\ufeff" + jsonList},
		{name: "UTF-16 of PowerShell", in: in16(strings.ReplaceAll(yamlList, "\n", "\r\n"), false, true)},
		{name: "UTF-16, the other order", in: in16(jsonList, true, true)},
		{name: "UTF-16 without a mark", in: in16(yamlList, false, false)},
		{name: "Windows line ends", in: strings.ReplaceAll(yamlList, "\n", "\r\n")},
		{name: "gzip", in: zipped(yamlList)},
		{name: "gzip of UTF-16", in: zipped(in16(yamlList, false, true))},
		{name: "xz", in: xzOf(t, yamlList)},
		{name: "tar", in: tarOf(t, "a.yaml", yamlList)},
		{name: "a packed file in a tar", in: tarOf(t, "a.yaml.gz", zipped(yamlList))},
		{name: "zip", in: zipOf(t, "x/a.json", jsonList)},
		{name: "a prompt", in: "user@host:~$ kubectl get nodes,pods -A -o yaml\n" + yamlList},
		{name: "prompts around", in: "$ kubectl get nodes,pods -A -o yaml\n" + yamlList + "$ \n"},
		{name: "root's prompt, and JSON", in: "[root@master-1 ~]# kubectl get nodes,pods -A -o json\n" + indented(jsonList) + "[root@master-1 ~]# exit\n"},
		{name: "PowerShell's prompt", in: "PS C:\\Users\\me> kubectl get pods -A -o yaml\r\n" + strings.ReplaceAll(yamlList, "\n", "\r\n")},
		{name: "the command alone", in: "kubectl get all -A -o yaml\n\n" + yamlList},
		{name: "a fence", in: "```yaml\n" + yamlList + "```\n"},
		{name: "an issue with a fence", in: "Hi all,\n\nthis is: what I get\n\n```json\n" + jsonList + "\n```\n\nThanks: a lot!\n"},
		{name: "fences for each kind", in: "# Nodes\n```\n" + strings.Join(typed, "\n```\nand the next:\n```\n") + "\n```\n"},
		{name: "Jira", in: "{code:yaml}\n" + yamlList + "{code}\n"},
		{name: "HTML in an issue", in: "<details>\n<summary>kubectl get -o yaml</summary>\n<pre>\n" + yamlList + "</pre>\n</details>\n"},
		{name: "a refused list at the end", in: yamlList + forbidden, gap: "leases: Forbidden"},
		{name: "a refused list at the beginning", in: forbidden + jsonList, gap: "leases: Forbidden"},
		{name: "a list refused in one namespace", in: yamlList + "Error from server (Forbidden): pods is forbidden: User \"dev\" cannot list resource \"pods\" in API group \"\" in the namespace \"blog\"\n", gap: "pods: Forbidden in default"},
		{name: "nothing but refusals", in: forbidden, refused: "f: no object in it, and an answer that refuses them: Error from server (Forbidden): leases"},
		{name: "a kind that the server does not know", in: "error: the server doesn't have a resource type \"csinodes\"\n" + yamlList, gap: "csinodes: Unavailable"},
		{name: "what the client warns of", in: "E1120 10:00:00.000000    1234 memcache.go:265] couldn't get current server API group list\nWarning: v1 ComponentStatus is deprecated in v1.19+\n" + yamlList},
		{name: "several calls, appended", in: appended},
		{name: "several calls with their prompts", in: asked},
		{name: "a mail that is quoted", in: lines(func(l string) string { return "> " + l }, yamlList)},
		{name: "numbered lines", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%6d\t%s", i, l) }
		}(), yamlList)},
		{name: "colours", in: strings.ReplaceAll(yamlList, "kind:", "\x1b[1;34mkind\x1b[0m:")},
		{name: "spaces that do not break", in: strings.ReplaceAll(yamlList, "  ", "\u00a0\u00a0")},
		{name: "all is indented", in: lines(func(l string) string { return "    " + l }, yamlList)},
		{name: "a dump that was printed", in: dumped},
		{name: "files put together, each with its byte order mark", in: "\ufeff" + strings.ReplaceAll(strings.Join(documents, "---\n\ufeff"), "\n", "\r\n")},
		{name: "lists put together, each with its byte order mark", in: "\ufeff" + strings.ReplaceAll(appended, "kind: List\nmetadata:\n  resourceVersion: \"\"\n", "kind: List\nmetadata:\n  resourceVersion: \"\"\n\ufeff")},
		{name: "UTF-16 that was appended to", in: in16("\ufeff"+strings.Join(documents, "---\n\ufeff"), false, false)},
		{name: "JSON, each with its byte order mark", in: "\ufeff" + indented(typed[0]) + "\ufeff" + strings.Join(typed[1:], "\n\ufeff")},
		{name: "head of several files", in: "==> a.yaml <==\n" + strings.Join(documents, "\n==> b.yaml <==\n")},
		{name: "a fence in a list", in: "1. I ran this:\n\n   ```yaml\n" + lines(func(l string) string { return "   " + l }, yamlList) + "   ```\n\n2. nothing: happens\n"},
		{name: "a fence of tildes", in: "This is what I get:\n~~~\n" + yamlList + "~~~\nThanks: a lot!\n"},
		{name: "an answer above its quotation", in: "Hi,\n\nlike: this?\n\nOn Fri, Bob wrote:\n" + lines(func(l string) string { return "> " + l }, yamlList)},
		{name: "an editor's numbers", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%4d %s", i, l) }
		}(), yamlList)},
		{name: "grep's numbers", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%d:%s", i, l) }
		}(), yamlList)},
		{name: "numbers, each with a colon and a blank", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%d: %s", i, l) }
		}(), yamlList)},
		{name: "grep's numbers of context", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%d-%s", i, l) }
		}(), yamlList)},
		{name: "a mail that is quoted twice", in: lines(func(l string) string { return ">> " + l }, yamlList)},
		{name: "a mail that is quoted again", in: lines(func(l string) string { return "> > " + l }, yamlList)},
		{name: "a file that a diff adds", in: lines(func(l string) string { return "+" + l }, yamlList)},
		{name: "vim's screen", in: yamlList + "~\n~\n\"all.yaml\" 1703L, 60000B\n"},
		{name: "less' screen", in: yamlList + "(END)\n"},
		{name: "Slack's times", in: "*10:02* bob: see below\n" + yamlList},
		{name: "bat's numbers", in: lines(func() func(string) string {
			i := 0
			return func(l string) string { i++; return fmt.Sprintf("%4d │ %s", i, l) }
		}(), jsonList+"\n")},
		{name: "a session that script has kept", in: "Script started on 2026-11-20 10:00:00+00:00 [TERM=\"xterm\"]\r\n\x1b[?2004h\x1b]0;me@host: ~\x07me@host:~$ kubectl get nodes -o yaml\r\n\x1b[?2004l\r" +
			strings.ReplaceAll(yamlList, "\n", "\r\n") + "\x1b[?2004hme@host:~$ exit\r\n\x1b[?2004l\r\r\nScript done on 2026-11-20 10:00:05+00:00 [COMMAND_EXIT_CODE=\"0\"]\r\n"},
		{name: "quotes of a messenger", in: strings.ReplaceAll(regexp.MustCompile(`"([^"]*)"`).ReplaceAllString(yamlList, "“$1”"), "creationTimestamp: 2", "creationTimestamp: “2")},
		{name: "what a tool says first", in: "command started at 2026-11-20 10:00:00+00:00, finished at 2026-11-20 10:00:03+00:00 with exitcode=0\n" + yamlList},
		{name: "what a tool says first, and JSON", in: "Fetching cluster endpoint and auth data.\nkubeconfig entry generated for prod.\n" + indented(jsonList)},
		{name: "cmd.exe", in: strings.ReplaceAll("C:\\Users\\me>kubectl get all -A -o yaml\n"+yamlList+"\nC:\\Users\\me>\n", "\n", "\r\n")},
		{name: "watch", in: "Every 2.0s: kubectl get nodes -o yaml          host: Fri Nov 20 10:00:00 2026\n\n" + yamlList},
		{name: "a session", in: "Starting session with SessionId: bob-0123\nsh-4.2$ kubectl get all -A -o yaml\n" + yamlList + "sh-4.2$ exit\nexit\n\nExiting session with sessionId: bob-0123.\nConnection to 10.0.0.1 closed.\n"},
		{name: "titles", in: "=== all ===\n" + strings.ReplaceAll(appended, "apiVersion: v1\nitems", "----- next -----\napiVersion: v1\nitems")},
		{name: "a script that shows what it does", in: strings.ReplaceAll(asked, "admin@bastion:~/tmp$ ", "+ ")},
		{name: "kube-ps1's prompt", in: "(⎈|prod:default) me ~ % kubectl get nodes,pods -A -o yaml\n" + yamlList + "(⎈|prod:default) me ~ %\n"},
		{name: "kube-ps1's prompt for each kind", in: strings.ReplaceAll(asked, "admin@bastion:~/tmp$ ", "(⎈|prod:default) me@laptop:~/work (main) $ ")},
		{name: "a prompt of two lines", in: strings.ReplaceAll(asked, "admin@bastion:~/tmp$ ", "┌──(me㉿kali)-[~]\n└─$ ")},
		{name: "a prompt with the time and a branch", in: strings.ReplaceAll(asked, "admin@bastion:~/tmp$ ", "10:00:05 me ~/work git:(main) ✗ ❯ ")},
		{name: "a list without its kind, of jq", in: indented(`{"items": [` + strings.Join(items, ",") + `]}`)},
		{name: "a watch with its events", in: lines(func(l string) string { return `{"type":"ADDED","object":` + strings.TrimSpace(l) + "}\n" }, strings.Join(items, "\n"))},
		{name: "a collection of Rancher's API", in: `{"type": "collection", "resourceType": "pods", "count": 9, "data": [` + strings.Join(items, ",") + `]}`},
		{name: "comments between", in: "# from prod\n" + strings.Join(documents, "# next\n---\n")},

		{name: "a table", in: "NAME    READY   STATUS    RESTARTS   AGE\nweb-0   1/1     Running   0          5d\n", refused: "f:1: a table that kubectl prints for people: write the objects with -o yaml"},
		{name: "a table after a prompt", in: "$ k get pods\nNAME    READY   STATUS\nweb-0   1/1     Running\n", refused: "f:2: document 1: a table that kubectl prints for people: write the objects with -o yaml"},
		{name: "what describe prints", in: "Name:         web-0\nNamespace:    shop\n", refused: "f:1: what kubectl describe prints for people: write the objects with -o yaml"},
		{name: "a table behind objects", in: yamlList + "$ kubectl get pods\nNAME    READY   STATUS\nweb-0   1/1     Running\n", refused: "a table that kubectl prints for people: write the objects with -o yaml"},
		{name: "a table right behind a list", in: yamlList + "NAME    READY   STATUS\nweb-0   1/1     Running\n", refused: "document 1: a table that kubectl prints for people: write the objects with -o yaml"},
		{name: "an anchor of another item", in: "items:\n- apiVersion: v1\n  kind: Node\n  metadata: &m {name: n1}\n- apiVersion: v1\n  kind: Node\n  metadata: *m\n", refused: "f:5: document 1, item 2: unknown anchor 'm' referenced: the anchor is in another item: write each item without anchors, or all of it as JSON"},
		{name: "the source of a web page", in: "<pre><code>" + strings.ReplaceAll(yamlList, `"`, "&quot;") + "</code></pre>\n", refused: "HTML, and not YAML: give the text as a browser shows it"},
		{name: "what describe prints behind objects", in: yamlList + "$ kubectl describe pod web-0\nName:         web-0\nNamespace:    shop\n", refused: "what kubectl describe prints for people: write the objects with -o yaml"},
		{name: "lines without their indentation", in: lines(func(l string) string { return strings.TrimLeft(l, " ") }, yamlList), refused: "f:"},
		{name: "lines that were broken", in: regexp.MustCompile(`(?m)^(.{40})(.)`).ReplaceAllString(yamlList, "$1\n$2"), refused: "f:"},
		{name: "tabs", in: strings.ReplaceAll(yamlList, "  ", "\t"), refused: "f:"},
		{name: "a line between objects that is none of theirs", in: documents[0] + "---\nning\n---\n" + strings.Join(documents[1:], "---\n"), refused: "f:"},
		{name: "nothing but words", in: "it does not work\nhelp\n", refused: "f:1: document 1: not an object"},
		{name: "two encodings", in: yamlList + in16(yamlList, false, false), refused: "f:1: "},
		{name: "names", in: "pod/web-0\n", refused: "f:1: names of objects: write the objects with -o yaml"},
		{name: "a storage system's list", in: `{"Volumes": []}`, refused: "f:1: document 1: the storage system's own list of volumes (aws), which has no Kubernetes objects: give it with --backend"},
		{name: "an array of a storage system's", in: `[{"id": "/subscriptions/s/disks/d", "diskState": "Attached", "managedBy": "/subscriptions/s/virtualMachines/n1"}]`, refused: "f:1: document 1, item 1: the storage system's own list of volumes (azure)"},
		{name: "a storage system's list in YAML", in: "volumes:\n- id: 1\n  linux_device: /dev/x\n  server: 7\n", refused: "the storage system's own list of volumes (hetzner)"},
		{name: "a Helm template", in: "{{- if .Values.x }}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n{{- end }}\n", refused: "f:1: document 1: a template, and no object: write the objects of the cluster with -o yaml"},
		{name: "Argo CD's resources", in: `{"items": [{"kind": "Pod", "namespace": "shop", "name": "web-0", "liveState": "{}"}]}`, refused: "f:1: document 1: a list whose items do not say what they are, with apiVersion and kind: write the objects with -o yaml"},
		{name: "a web page", in: "<!DOCTYPE html>\n<html>\n", refused: "f:1: document 1: not an object"},
		{name: "Latin-1", in: yamlList + "# caf\xe9\n", refused: "not UTF-8 text"},
		{name: "cut off", in: yamlList[:len(yamlList)/2], refused: "f:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := Read("f", strings.NewReader(tt.in), ReadOptions{Now: base.TakenAt})
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, not: %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
			if diff := cmp.Diff(writtenObjects(t, New(s.TakenAt, Source{}, base.Objects, nil)), writtenObjects(t, New(s.TakenAt, Source{}, s.Objects, nil))); diff != "" {
				t.Error(diff)
			}
			if tt.gap != "" && !strings.Contains(strings.Join(gapLines(s), "\n"), tt.gap) {
				t.Errorf("%v, not: %s", gapLines(s), tt.gap)
			}
		})
	}
	if n < 34 {
		t.Errorf("%d forms are read", n)
	}
	t.Logf("%d forms are read", n)
}

// TestEmptyListOfACommand: an empty list behind a command that lists all objects of a kind is of that kind.
func TestEmptyListOfACommand(t *testing.T) {
	empty := "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	nodes := "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1, uid: n1}\n  status: {nodeInfo: {kubeletVersion: v1.32.1}}\nkind: List\nmetadata: {}\n"
	for _, tt := range []struct {
		name, in string
		whole    []Kind
	}{
		{"all", "$ kubectl get nodes -o yaml\n" + nodes + "$ kubectl get events -A -o yaml\n" + empty, []Kind{Events}},
		{"kinds of the whole cluster", "$ kubectl get sc,pv -o yaml\n" + empty + "$ kubectl get storageclasses --show-managed-fields -oyaml\n" + empty + nodes, []Kind{StorageClasses}},
		{"as JSON", "$ kubectl get events --all-namespaces -o json\n{\n\"apiVersion\": \"v1\",\n\"items\": [],\n\"kind\": \"List\"\n}\n$ kubectl get nodes -o yaml\n" + nodes, []Kind{Events}},
		{"of one namespace", nodes + "$ kubectl get events -o yaml\n" + empty + "$ kubectl -n shop get claims -A -o yaml\n" + empty, nil},
		{"of a label", nodes + "$ kubectl get events -A -l app=x -o yaml\n" + empty + "$ kubectl get pv a -o yaml\n" + empty, nil},
		{"the next command is not answered", nodes + "$ kubectl get pods -n shop -o yaml\n" + empty + "$ kubectl get events -A -o yaml\n", nil},
		{"a second answer", "$ kubectl get events -A -o yaml\n" + nodes + "---\n" + empty, nil},
	} {
		s, _, err := Read("f", strings.NewReader(tt.in), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		var whole []Kind
		for _, kind := range Kinds() {
			if kind != Nodes && s.Complete(kind) {
				whole = append(whole, kind)
			}
		}
		if !slices.Equal(whole, tt.whole) {
			t.Errorf("%s: %v, not %v", tt.name, whole, tt.whole)
		}
	}
}

// TestRefusedByFileOrCommand: a refusal that does not say which list it refuses is of the one after which
// its file is named, or of the one that was asked for.
func TestRefusedByFileOrCommand(t *testing.T) {
	refused := "Unable to connect to the server: net/http: TLS handshake timeout\n"
	list := clusterList(podOf("shop", "a", "5"))
	s, _, err := ReadFS("f", fstest.MapFS{"pods.json": {Data: []byte(list)}, "events.yaml": {Data: []byte(refused)}}, ReadOptions{Now: noon})
	check := func(name string, s *Snapshot, err error, kind Kind) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		for _, g := range s.Gaps {
			if unavailable := g.Reason == ReasonUnavailable; unavailable != (g.Kind == kind) {
				t.Errorf("%s: %q", name, gapLines(s))
			}
		}
		if s.Complete(kind) || !s.Complete(Pods) {
			t.Errorf("%s: %q", name, gapLines(s))
		}
	}
	check("file", s, err, Events)
	s, _, err = Read("f", strings.NewReader("$ kubectl get pods -A -o yaml\n"+list+"\n$ kubectl get -A va -o yaml\n"+refused), ReadOptions{Now: noon})
	check("command", s, err, VolumeAttachments)
	s, _, err = Read("f", strings.NewReader(list+"\nError from server (Timeout): the server was unable to return a response in the time allotted, but may still be processing the request (get volumeattachments.storage.k8s.io)\n"), ReadOptions{Now: noon})
	check("message", s, err, VolumeAttachments)
}

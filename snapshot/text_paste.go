package snapshot

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Texts that people send were often copied from a terminal or a ticket, so foreign lines surround
// the objects. All these lines begin at the margin, where programs that write YAML put only keys,
// dashes and braces.

// noise matches the lines that are ignored.
var noise = []*regexp.Regexp{
	// A prompt, with or without a command: user@host:~$, [root@host ~]#, PS C:\>, C:\>, $.
	regexp.MustCompile(`^(\([\w.-]+\) ?)?(\[?[\w.-]+@[\w.-]+[^$#%>]{0,200}[$#%>]|PS [^>]{0,200}>|[A-Z]:\\[^>]{0,200}>(?:kubectl|oc|exit)?|(?:ba)?sh-[\d.]+[$#]|[$%❯➜])(\s.*)?$`),
	// A command without a prompt, or after an unknown prompt.
	regexp.MustCompile(`^([^\s:"'{}]{0,100}[$#%>❯➜]\s*)?(sudo\s+)?(kubectl|kubectl\.exe|oc|k|k3s|microk8s|minikube|kubecolor)\s+\S`),
	// The same behind a prompt of any form, with spaces in it: (prod:default) me ~ %, ~/x (main) ❯.
	regexp.MustCompile(`^[^:]{1,200}(:\S[^:]{0,200}){0,3}[$#%>❯➜✗»λ›⟩]\s+(sudo\s+)?(kubectl|oc|k|k3s|microk8s|minikube|kubecolor)\s+\S`),
	// What kube-ps1 shows before a prompt, and the first of a prompt's two lines.
	regexp.MustCompile(`^([(\[]?⎈|[┌╭╰└]).{0,200}$`),
	// What vim and less show below a text, and a time in bold letters above a message.
	regexp.MustCompile(`^(~|\(END\))$`),
	regexp.MustCompile(`^\*[^*\s]+\*(\s.*)?$`),
	// Marks around code in Markdown, Jira and HTML.
	regexp.MustCompile("^(`{3,}|~{3,})\\s*[\\w.+-]*\\s*$"),
	regexp.MustCompile(`^\{(code|noformat|panel)(:[^}]*)?\}$`),
	regexp.MustCompile(`^</?(pre|code|details|summary|blockquote|p|div)[^>]*>(.*</(summary|pre|code)>)?(<(pre|code)[^>]*>)*$`),
	// Separators between the outputs of several calls.
	regexp.MustCompile(`^(==> .* <==|={3,} \w+ ={3,}|-{4,} \w+ -{4,}|\+ (kubectl|oc) .*)$`),
	// Messages of other tools that connect to a cluster.
	regexp.MustCompile(`^(Connection to \S+ closed\.|(Starting|Exiting) session with .*|command started at .* with exitcode=\d+|Fetching cluster endpoint and auth data\.|kubeconfig entry generated for .*|Every [\d.]+s: kubectl .*|(real|user|sys)\t.*)$`),
	// Messages of kubectl and its libraries.
	regexp.MustCompile(`^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ `),
	regexp.MustCompile(`^(Warning|W): \S`),
	regexp.MustCompile(`^(No resources found|Flag --\S+ has been deprecated|Switched to context|Now using project|Using project|Defaulted container|command terminated with exit code|Script (started|done)|Last login:|logout|exit$)`),
	regexp.MustCompile(`^Error from server \(NotFound\): `), // a single object that does not exist
}

// refusals match the lines which say that a list is missing.
var refusals = []*regexp.Regexp{
	regexp.MustCompile(`^Error from server( \(\w+\))?: `),
	regexp.MustCompile(`^(E|e)rror: \S`),
	regexp.MustCompile(`^(Unable to connect to the server|The connection to the server .* was refused|Unauthorized)`),
}

// A dump that was printed has the logs of containers between its lists.
var (
	logsBegin = regexp.MustCompile(`^==== START logs for container \S+ of pod \S+ ====$`)
	logsEnd   = regexp.MustCompile(`^==== END logs for container \S+ of pod \S+ ====$`)
)

// vimStatus matches the last line of vim.
var vimStatus = regexp.MustCompile(`^"[^"]+" \d+L, \d+[BC]\b`)

// usualLine matches the lines that programs write at the margin of YAML.
var usualLine = regexp.MustCompile(`^(apiVersion|kind|metadata|items|spec|status|data|message|reason|type|involvedObject|source):(\s|$)`)

// passes reports whether a line at the margin is foreign, and records what it says about missing
// lists.
func (y *yamlReader) passes(line []byte) bool {
	if y.inLogs {
		y.inLogs = !logsEnd.Match(bytes.TrimSpace(line))
		return true
	}
	if len(line) > 0 && line[0] == '"' && vimStatus.Match(line) {
		return true
	}
	if len(line) == 0 || strings.IndexByte(" -#\r\n\"'&", line[0]) >= 0 && !bytes.HasPrefix(line, []byte("----")) || usualLine.Match(line) || len(line) > 4096 {
		return false
	}
	if line[0] == '{' && !isMacro(line) {
		return false
	}
	said := bytes.TrimSpace(line)
	for _, re := range noise {
		if re.Match(said) {
			if m := askedFor.FindSubmatch(said); m != nil {
				y.asked = string(m[1])
				y.c.commands = append(y.c.commands, command{y.line, listedBy(string(said))})
			}
			return true
		}
	}
	for _, re := range refusals {
		if re.Match(said) {
			y.c.refuse(string(said), y.at.file, y.asked)
			return true
		}
	}
	if logsBegin.Match(said) {
		y.inLogs, y.c.dumped = true, true
		return true
	}
	return false
}

// refusedResource matches the kind in the message of an API server, or of kubectl, about a list.
var refusedResource = regexp.MustCompile(`(?:resource type|resource) "?([a-z]+)|\(get ([a-z]+)(?:\.[\w.]+)?\)$|^Error from server \(Forbidden\): ([a-z]+)(?:\.[\w.]+)? is forbidden`)

// askedFor matches the kinds in a command of kubectl.
var askedFor = regexp.MustCompile(`\b(?:kubectl|oc|k|k3s|microk8s|minikube|kubecolor)\b.*?\sget\s+(?:-\S+\s+)*([a-z][\w.,]*)`)

// command is a command of kubectl in a text.
type command struct {
	line int
	kind Kind // see listedBy
}

// answeredBy returns the kind that the last command before the list lists. A command has one answer.
func (c *collector) answeredBy(line int) Kind {
	i := slices.IndexFunc(c.commands, func(of command) bool { return of.line >= line })
	if i < 0 {
		i = len(c.commands)
	}
	before := c.commands[:i]
	c.commands = c.commands[i:]
	if len(before) == 0 {
		return ""
	}
	return before[len(before)-1].kind
}

// listedBy returns the kind whose objects the command of kubectl lists, all of them; "" if it may list
// fewer, or several kinds.
func listedBy(command string) Kind {
	before, after, _ := strings.Cut(command, " get ")
	name, all := "", false
	words := strings.Fields(after)
	for i, word := range words {
		switch {
		case word == "-A" || word == "--all-namespaces":
			all = true
		case strings.HasPrefix(word, "-o") || strings.HasPrefix(word, "--output") || strings.HasPrefix(word, "--show-managed-fields"):
		case i > 0 && (words[i-1] == "-o" || words[i-1] == "--output"):
		case name == "" && !strings.HasPrefix(word, "-"):
			name = word
		default:
			return "" // a name, a selector, or a file that it writes
		}
	}
	kinds := kindsAsked(name)
	if len(kinds) != 1 || resourceOf(kinds[0]).Namespaced && (!all || strings.Contains(before, " -n") || strings.Contains(before, "--namespace")) {
		return ""
	}
	return kinds[0]
}

// kindsAsked returns the kinds that the names, separated by commas, stand for; all kinds if one of
// them is unknown.
func kindsAsked(names string) []Kind {
	var kinds []Kind
	for name := range strings.SplitSeq(names, ",") {
		name, _, _ = strings.Cut(name, ".")
		r := rowNamed(name)
		if r == nil {
			return Kinds()
		}
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// refuse notes that the list of the named kind is missing. If the message names no kind, it is the
// one after which the file is named, or else the one that was asked for. If nothing names one, all lists are missing.
func (c *collector) refuse(said, file, asked string) {
	reason := ReasonUnavailable
	if strings.Contains(strings.ToLower(said), "forbidden") || strings.Contains(said, "Unauthorized") {
		reason = ReasonForbidden
	}
	kinds := Kinds()
	if m := refusedResource.FindStringSubmatch(said); m != nil {
		kinds = nil
		if r := rowNamed(m[1] + m[2] + m[3]); r != nil {
			kinds = []Kind{r.Kind}
		}
	} else if asked := cmp.Or(string(kindByFile(file)), asked); asked != "" {
		kinds = kindsAsked(asked)
	}
	for _, kind := range kinds {
		if _, ok := c.refused[kind]; !ok {
			c.refused[kind] = Gap{Kind: kind, Reason: reason, Detail: plain(said)}
		}
	}
}

// refusedNamespace matches the namespace in an API server's message about a list of one namespace.
var refusedNamespace = regexp.MustCompile(`in the namespace "([^"]+)"`)

// readBeside returns the namespaces in which the kind was read, if its list was refused in another
// one.
func (c *collector) readBeside(gap Gap) string {
	m := refusedNamespace.FindStringSubmatch(gap.Detail)
	if m == nil || gap.Reason != ReasonForbidden {
		return gap.Namespace
	}
	var read []string
	for object := range resourceOf(gap.Kind).all(&c.objects) {
		if object.GetNamespace() != m[1] {
			read = append(read, object.GetNamespace())
		}
	}
	return ofNamespaces(read)
}

// tables match the first lines of kubectl's outputs for people.
var tables = []struct {
	line *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^(NAMESPACE +)?(LAST SEEN|NAME|DRIVER) {2,}[A-Z]`), "a table that kubectl prints for people"},
	{regexp.MustCompile(`^(NAMESPACE +)?[A-Z]+( ?[A-Z()-]+)*( {2,}[A-Z][A-Z ()-]*)+$`), "a table that kubectl prints for people"},
	{regexp.MustCompile(`^Name: {2,}\S`), "what kubectl describe prints for people"},
	{regexp.MustCompile(`^(pod|node|persistentvolume|persistentvolumeclaim|volumeattachment)(\.[\w.]+)?/[\w.-]+$`), "names of objects"},
}

// forPeople returns an error if the line begins an output for people, else nil.
func forPeople(line []byte) error {
	for _, t := range tables {
		if t.line.Match(bytes.TrimSpace(line)) {
			return fmt.Errorf("%s: write the objects with -o yaml", t.what)
		}
	}
	return nil
}

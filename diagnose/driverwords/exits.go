package driverwords

import (
	"cmp"
	_ "embed" // for numbers.txt
	"regexp"
	"strconv"
	"strings"
)

// tool is a program, or another speaker in numbers, with the meanings of its numbers. A
// number means nothing without its tool.
type tool struct {
	name string
	// speaks matches messages in which the tool gave the number.
	speaks *regexp.Regexp
	// number is where the tool's numbers stand; the first group is the number.
	number *regexp.Regexp
	source string
}

// numbered is the meaning of a number.
type numbered struct {
	meaning Meaning
	// says is the tool's own name of the number.
	says string
	// helps is the advice, where it is not the usual one for the meaning.
	helps string
}

// exitStatus is how Go programs and shells write an exit code.
var exitStatus = regexp.MustCompile(`(?:exit status|exit code|exited with(?: code)?|error code|return(?:ed)? code|exit)[ :=]*\(?(\d+)\b`)

// tools are the speakers of numbers.txt but HTTP, in the order in which a message is read.
var tools = []tool{
	{name: "iscsiadm", speaks: regexp.MustCompile(`(?i)\biscsi(?:adm)?\b`), number: regexp.MustCompile(exitStatus.String() + `|initiator reported error \((\d+)`),
		source: "open-iscsi/open-iscsi include/iscsi_err.h@2.1.11"},
	{name: "fsck", speaks: regexp.MustCompile(`\be?2?fsck\b|\bfsck\.`), number: exitStatus,
		source: "util-linux/util-linux disk-utils/fsck.8.adoc@v2.42.2"},
	{name: "rbd", speaks: regexp.MustCompile(`running rbd args|\brbd: (?:map|sysfs|unmap)`), number: regexp.MustCompile(exitStatus.String() + `|rbd: \w+ failed: \((\d+)\)`),
		source: "ceph/ceph src/tools/rbd/Shell.cc@01840a47b8971b3943be9b628478d13a8870ad70"},
	{name: "cryptsetup", speaks: regexp.MustCompile(`(?i)cryptsetup|luks(?:Open|Close|Format|AddKey|Resize)\b`), number: exitStatus,
		source: "mbroz/cryptsetup man/common_footer.adoc@v2.8.6"},
	{name: "mount.cifs", speaks: regexp.MustCompile(`mount error\(\d+\)|mount\.cifs|cifs_mount`), number: regexp.MustCompile(`mount error\((\d+)\)|cifs_mount failed w/return code = -(\d+)`),
		source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/250"},
	{name: "mount.ceph", speaks: regexp.MustCompile(`mount error \d+ = |mount\.ceph`), number: regexp.MustCompile(`mount error (\d+) = `),
		source: "ceph/ceph src/mount/mount.ceph.c@v19.2.0"},
	{name: "Windows", speaks: regexp.MustCompile(`HRESULT|(?i)windows system error|system error \d+`), number: regexp.MustCompile(`(?i)HRESULT:? ?\(?(0x[0-9a-f]{8})|system error:? ?(\d+)`),
		source: "microsoft/win32metadata generation/WinSDK/RecompiledIdlHeaders/shared/winerror.h@main"},
	{name: "shell", speaks: exitStatus, number: exitStatus,
		source: "golang/go src/os/exec/exec.go@go1.26.8"},
}

//go:embed numbers.txt
var numbersText string

// numbers are the numbers of each tool.
var numbers = readNumbers()

func readNumbers() map[string]map[int]numbered {
	all := map[string]map[int]numbered{}
	var tool string
	var number int
	for line := range strings.Lines(numbersText) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		switch helps, indented := strings.CutPrefix(line, "  helps "); {
		case line == "" || key == "#":
		case key == "tool":
			tool = value
			all[tool] = map[int]numbered{}
		case indented:
			n := all[tool][number]
			n.helps = helps
			all[tool][number] = n
		default:
			meaning, says, _ := strings.Cut(value, " ")
			var err error
			if number, err = strconv.Atoi(key); err != nil || meanings[Meaning(meaning)].Says == "" || says == "" {
				panic("numbers.txt: no number with its meaning: " + line)
			}
			all[tool][number] = numbered{meaning: Meaning(meaning), says: says}
		}
	}
	return all
}

// httpStatus is the status of an answer of a storage system or a provider.
var httpStatus = regexp.MustCompile(`(?i)(?:\bHTTP ?(?:error|response|status)?(?: code)?|status ?code|googleapi: error|"code"|http error - code|http status|request failed with status code)["' :=\[(]*([45]\d\d)\b|but got ([45]\d\d) instead`)

// httpAnswers are the statuses that say the same everywhere.
var httpAnswers = tool{name: httpTool, source: "golang/go src/net/http/status.go@go1.26.8"}

const httpTool = "HTTP"

// exitsOf finds the numbers of a message and the tools that gave them. Among several tools, a
// number belongs to the one that is named nearest to it.
func exitsOf(message string) []Exit {
	var exits []Exit
	taken := map[int]bool{}
	add := func(t tool) {
		places := t.speaks.FindAllStringIndex(message, -1)
		if places == nil {
			return
		}
		for _, at := range t.number.FindAllStringSubmatchIndex(message, -1) {
			for group := 2; group+1 < len(at); group += 2 {
				if at[group] < 0 || taken[at[group]] || t.name != "shell" && nearest(message, at[group]) != t.name {
					continue
				}
				text := message[at[group]:at[group+1]]
				wide, err := strconv.ParseInt(text, 0, 64)
				if err != nil {
					continue
				}
				if strings.HasPrefix(text, "0x") {
					wide &= 0xffff // the facility is Win32: the rest is the system error
				}
				n := int(wide)
				if _, known := numbers[t.name][n]; !known {
					continue
				}
				taken[at[group]] = true
				exits = append(exits, Exit{t.name, n})
			}
		}
	}
	for _, t := range tools {
		add(t)
	}
	if m := httpStatus.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(cmp.Or(m[1], m[2]))
		exits = append(exits, Exit{httpTool, n})
	}
	return exits
}

// nearest is the tool that the message names nearest to a place in it.
func nearest(message string, place int) string {
	best, name := len(message)+1, ""
	for _, t := range tools {
		if t.name == "shell" {
			continue
		}
		for _, at := range t.speaks.FindAllStringIndex(message, -1) {
			distance := max(at[0]-place, place-at[1], 0)
			if distance < best {
				best, name = distance, t.name
			}
		}
	}
	return name
}

// numberMeans returns the entry of the first number of the message that is known, of a
// program or, with http, of an answer.
func numberMeans(m Message, http bool, without string) (Entry, bool) {
	for _, exit := range m.Exits {
		if exit.Tool == without || (exit.Tool == httpTool) != http {
			continue
		}
		for _, t := range numbering() {
			if _, ok := numbers[t.name][exit.Number]; ok && t.name == exit.Tool {
				return t.entry(exit.Number), true
			}
		}
	}
	return Entry{}, false
}

// meant is an entry that is not in the table.
func meant(meaning Meaning, words, helps, source string) Entry {
	about := meanings[meaning]
	return Entry{Words: words, Meaning: meaning, Actor: about.Actor, Helps: cmp.Or(helps, about.Helps), Source: source}
}

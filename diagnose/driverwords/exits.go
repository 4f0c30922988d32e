package driverwords

import (
	"cmp"
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
	number  *regexp.Regexp
	source  string
	meaning map[int]numbered
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

var tools = []tool{
	{name: "iscsiadm", speaks: regexp.MustCompile(`(?i)\biscsi(?:adm)?\b`), number: regexp.MustCompile(exitStatus.String() + `|initiator reported error \((\d+)`),
		source: "open-iscsi/open-iscsi include/iscsi_err.h@2.1.11",
		meaning: map[int]numbered{
			2:  {PathsMissing, "session could not be found", ""},
			4:  {Unreachable, "could not connect to the target", ""},
			5:  {PathsMissing, "the login was refused", ""},
			6:  {PathsMissing, "database failure", "{final} Delete the broken records under /etc/iscsi/nodes or /var/lib/iscsi/nodes on the node and discover the target again."},
			8:  {Unreachable, "connection timed out", ""},
			10: {DeviceBusy, "the logout was refused", ""},
			11: {Unreachable, "the target did not answer in time", ""},
			12: {ToolMissing, "the kernel module is not loaded", "{change} Load the kernel module iscsi_tcp on the node."},
			13: {PermissionDenied, "no rights to ask iscsid", ""},
			15: {SessionExists, "session exists", ""},
			18: {ToolMissing, "could not communicate with iscsid", "{change} Start iscsid on the node."},
			19: {PathsMissing, "the target refused the login, and not for credentials", "{note} Check on the storage system that it exports the target under the name and portal that the node asks for: mostly the target is not there, or another node still has its only session."},
			20: {ToolMissing, "not connected to iscsid", "{change} Start iscsid on the node."},
			21: {PathsMissing, "no records, targets or sessions found", "{note} Check that discovery of the portal works; the node has no record of the target."},
			22: {DeviceMissing, "device not found in sysfs", ""},
			24: {PermissionDenied, "the login was not authorized", "{note} Check the CHAP user and password, and that the target allows the node's initiator name."},
			28: {DeviceBusy, "in use", ""},
		}},
	{name: "fsck", speaks: regexp.MustCompile(`\be?2?fsck\b|\bfsck\.`), number: exitStatus,
		source: "util-linux/util-linux disk-utils/fsck.8.adoc@v2.42.2",
		meaning: map[int]numbered{
			4:  {FilesystemDamaged, "errors that were left uncorrected", "Take a snapshot, then {final} run fsck on the device by hand while it is mounted nowhere."},
			8:  {DeviceMissing, "the check could not run", "{note} Check on the node that the device is there and that nothing else has it open; then {final} run fsck on it by hand."},
			12: {FilesystemDamaged, "errors left, and the check could not end", "Take a snapshot, then {final} run fsck on the device by hand while it is mounted nowhere."},
		}},
	{name: "rbd", speaks: regexp.MustCompile(`running rbd args|\brbd: (?:map|sysfs|unmap)`), number: regexp.MustCompile(exitStatus.String() + `|rbd: \w+ failed: \((\d+)\)`),
		source: "ceph/ceph src/tools/rbd/Shell.cc@01840a47b8971b3943be9b628478d13a8870ad70",
		meaning: map[int]numbered{
			1:   {PermissionDenied, "operation not permitted", "Check the user, its key and its capabilities on the pool (\"ceph auth get\")."},
			2:   {VolumeNotFound, "no such image or pool", ""},
			5:   {StorageError, "input/output error", "Read the kernel log of the node, and check \"ceph status\" and the network to the OSDs."},
			6:   {NodeIncompatible, "the kernel lacks a feature of the image", "Upgrade the node's kernel, or disable the image features that it lacks with \"rbd feature disable\", or use rbd-nbd."},
			13:  {PermissionDenied, "permission denied", "Check the user, its key and its capabilities on the pool (\"ceph auth get\")."},
			16:  {DeviceBusy, "device busy", ""},
			22:  {NodeIncompatible, "the kernel does not accept the request", "{note} Read the kernel log of the node: an image feature or a map option is unknown to its kernel."},
			30:  {ReadOnly, "the image may not be written", ""},
			108: {ClientBlocked, "the client is on the block list", ""},
			110: {Unreachable, "connection timed out", "{note} Check that the node reaches the monitors; for port 3300 the kernel needs ms_mode in the map options."},
		}},
	{name: "cryptsetup", speaks: regexp.MustCompile(`(?i)cryptsetup|luks(?:Open|Close|Format|AddKey|Resize)\b`), number: exitStatus,
		source: "mbroz/cryptsetup man/common_footer.adoc@v2.8.6",
		meaning: map[int]numbered{
			2: {EncryptionKey, "wrong passphrase", ""},
			4: {DeviceMissing, "wrong device", ""},
			5: {DeviceBusy, "the device exists already or is busy", ""},
		}},
	{name: "mount.cifs", speaks: regexp.MustCompile(`mount error\(\d+\)|mount\.cifs|cifs_mount`), number: regexp.MustCompile(`mount error\((\d+)\)|cifs_mount failed w/return code = -(\d+)`),
		source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/250",
		meaning: map[int]numbered{
			2:   {VolumeNotFound, "no such share or directory", "{note} Check the share's name and the directory in it on the server."},
			5:   {StorageError, "input/output error", ""},
			6:   {VolumeNotFound, "no such share", "{note} Check the share's name on the server."},
			13:  {PermissionDenied, "permission denied", "{note} Check user, password and domain in the Secret and the share's permissions; SMB encryption or the vers= option may be required."},
			16:  {DeviceBusy, "busy", ""},
			20:  {VolumeNotFound, "not a directory", ""},
			22:  {BadParameters, "invalid argument", "{note} Check the mount options; vers= may name a version that the server or the kernel does not have."},
			95:  {NodeIncompatible, "not supported", "{change} Set a version in mountOptions (vers=) that the server and the node's kernel have."},
			101: {Unreachable, "network is unreachable", ""},
			110: {Unreachable, "connection timed out", ""},
			111: {Unreachable, "connection refused", ""},
			112: {Unreachable, "host is down", ""},
			113: {Unreachable, "no route to host", ""},
			115: {Unreachable, "the connection was not made in time", "{note} Check that the node reaches the server on TCP 445."},
			126: {PermissionDenied, "the key for the login is not there", "{note} Check the Kerberos ticket or the credentials of the mount."},
		}},
	{name: "mount.ceph", speaks: regexp.MustCompile(`mount error \d+ = |mount\.ceph`), number: regexp.MustCompile(`mount error (\d+) = `),
		source: "ceph/ceph src/mount/mount.ceph.c@v19.2.0",
		meaning: map[int]numbered{
			2:  {VolumeNotFound, "no such file or directory", "{note} Check that the subvolume, and the path that the message names, exist in the file system."},
			19: {ToolMissing, "no such device", "{change} Load the kernel module ceph on the node."},
			22: {BadParameters, "invalid argument", "{note} Check the mount options, the key and the name of the file system; the kernel log of the node names what it does not take."},
			95: {NodeIncompatible, "not supported", ""},
		}},
	{name: "Windows", speaks: regexp.MustCompile(`HRESULT|(?i)windows system error|system error \d+`), number: regexp.MustCompile(`(?i)HRESULT:? ?\(?(0x[0-9a-f]{8})|system error:? ?(\d+)`),
		source: "microsoft/win32metadata generation/WinSDK/RecompiledIdlHeaders/shared/winerror.h@main",
		meaning: map[int]numbered{
			3:    {VolumeNotFound, "the path does not exist", ""},
			5:    {PermissionDenied, "access is denied", ""},
			53:   {Unreachable, "the network path was not found", "{note} Check the server's name, and that the node reaches it on TCP 445."},
			64:   {Unreachable, "the network name is gone", ""},
			67:   {VolumeNotFound, "the network name cannot be found", "{note} Check the share's name on the server."},
			86:   {PermissionDenied, "the password is wrong", ""},
			1219: {PermissionDenied, "the server is connected already under another user", "{change} Use the same user for all shares of a server on one Windows node."},
			1326: {PermissionDenied, "the user name or password is wrong", ""},
		}},
	{name: "shell", speaks: exitStatus, number: exitStatus,
		source: "golang/go src/os/exec/exec.go@go1.26.8",
		meaning: map[int]numbered{
			127: {ToolMissing, "the program was not found", ""},
		}},
}

// httpStatus is the status of an answer of a storage system or a provider.
var httpStatus = regexp.MustCompile(`(?i)(?:\bHTTP ?(?:error|response|status)?(?: code)?|status ?code|googleapi: error|"code"|http error - code|http status|request failed with status code)["' :=\[(]*([45]\d\d)\b|but got ([45]\d\d) instead`)

// httpAnswers are the statuses that say the same everywhere. A 500 says nothing.
var httpAnswers = tool{name: httpTool, source: "golang/go src/net/http/status.go@go1.26.8", meaning: map[int]numbered{
	401: {PermissionDenied, "not authenticated", ""},
	403: {PermissionDenied, "forbidden", ""},
	404: {ObjectNotFound, "not found", ""},
	409: {BackendBusy, "conflict with another operation", ""},
	423: {BackendBusy, "locked", ""},
	429: {Throttled, "too many requests", ""},
	502: {Unreachable, "bad gateway", ""},
	503: {Unreachable, "service unavailable", ""},
	504: {Unreachable, "the gateway got no answer", ""},
	507: {OutOfSpace, "insufficient storage", ""},
}}

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
				if _, known := t.meaning[n]; !known {
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
			if _, ok := t.meaning[exit.Number]; ok && t.name == exit.Tool {
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

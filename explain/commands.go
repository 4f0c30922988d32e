package explain

import (
	"fmt"
	"io"
	"regexp"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// neverUnread are commands that people paste before they run them, each with its page.
var neverUnread = []struct {
	form *regexp.Regexp
	page string
}{
	{regexp.MustCompile(`(?i)\bdelete\s+(?:-\S+\s+)*(?:volumeattachments?(?:\.storage\.k8s\.io)?|va)[\s/]`), "delete-volumeattachment"},
	{regexp.MustCompile(`(?i)finalizers\\?"?\s*[:=]\s*(?:null|\[\s*\])|/metadata/finalizers`), "null-finalizers"},
	{regexp.MustCompile(`(?i)\bdelete\s+(?:-\S+\s+)*(?:pods?|po)[\s/].*--(?:force|grace-period=0)|\bdelete\s.*--force.*\s(?:pods?|po)[\s/]`), "force-delete-pod"},
	{regexp.MustCompile(`(?i)\btaint\s+nodes?\b.*out-of-service\S*[^-\s]\s`), "taint-a-live-node"},
	{regexp.MustCompile(`(?i)\bdelete\s+(?:-\S+\s+)*nodes?[\s/]`), "delete-node"},
	{regexp.MustCompile(`(?i)\b(?:ec2 detach-volume|instances detach-disk|(?:vm|vmss) disk detach|server remove volume|nova volume-detach|cinder force-detach|hcloud volume detach|volume-action detach|govc device\.remove)\b`), "cloud-detach"},
	{regexp.MustCompile(`(?i)\bdelete\s+(?:-\S+\s+)*(?:\S+,)?(?:pvcs?|persistentvolumeclaims?|pvs?|persistentvolumes?|ns|namespaces?)[\s/,]|\bdelete\s.*\s(?:pvc|persistentvolumeclaim|pv|persistentvolume|ns|namespace)/|\bhelm3?\s+(?:-\S+\s+)*(?:uninstall|delete|del|un)\s|\bkubectl\s.*\breplace\s.*--force\b`), "delete-claim"},
	{regexp.MustCompile(`\b(?:rbd\s+(?:rm|remove|trash\s+(?:mv|move|rm|remove|purge)|snap\s+rollback)|lvremove|vgremove|pvremove|(?:zfs|zpool)\s+destroy|zfs\s+rollback|blkdiscard|ec2\s+delete-volume|disks\s+delete|disk\s+delete|openstack\s+volume\s+delete|cinder\s+(?:force-)?delete|volume\s+delete)\s`), "delete-disk"},
	{regexp.MustCompile(`\brbd\s+(?:lock\s+(?:rm|remove|break)|unmap\s.*-o\s*(?:full-)?force|(?:-o\s*(?:full-)?force\s+)unmap)\b|\bosd\s+(?:blocklist|blacklist)\s+add\b|\bsg_persist\s.*--(?:clear|preempt|preempt-abort)\b|\b(?:cinder\s+reset-state|openstack\s+volume\s+set\s.*--state)\b`), "break-lock"},
	{regexp.MustCompile(`\biscsiadm\s.*(?:\s-u\b|\s--logout\b|\s--logoutall)|\bnvme\s+disconnect|\bmultipath\s+-[fF]\b|\bdmsetup\s+remove|\bcryptsetup\s+(?:luksClose|close)\b|\brbd\s+(?:device\s+)?unmap\b|>\s*/sys/\S+/delete\b|/sys/bus/rbd/remove`), "cut-device"},
	{regexp.MustCompile(`\betcdctl\s.*\b(?:del|rm|put)\s.*/registry\b`), "edit-etcd"},
	{regexp.MustCompile(`\bumount\s+(?:-\w*[lf]|--lazy|--force)`), "lazy-unmount"},
	{regexp.MustCompile(`\brm\s+(?:-\S+\s+)*\S*/kubelet(?:/\S*)?\s`), "remove-kubelet-directories"},
	{regexp.MustCompile(`\b(?:mkfs(?:\.\w+)?|mke2fs|wipefs|sgdisk\s.*-(?:Z|-zap-all)|cryptsetup\s+(?:\S+\s+)*(?:luksFormat|luksErase|erase)|dd\s.*\bof=/dev/\S+|debugfs\s+-w|zpool\s+(?:labelclear|create)|xfs_repair\s+(?:\S+\s+)*-L|(?:e2)?fsck(?:\.\w+)?\s+(?:\S+\s+)*-\w*y)\s`), "overwrite-file-system"},
}

// harmOf is the name of the page about the command in the text; "" where it has none.
func harmOf(text string) string {
	if saidBySomebody.MatchString(text) {
		return ""
	}
	for _, h := range neverUnread {
		if h.form.MatchString(text + " ") {
			return h.page
		}
	}
	return ""
}

// saidBySomebody matches what a program said while it ran such a command itself.
var saidBySomebody = regexp.MustCompile(`(?i)\brpc error|\b(?:un)?mount failed|\bfailed\b|\berror\b|\bOutput:`)

// warn prints the page to read before the command is run, if the text is one that does harm.
func warn(w io.Writer, text string) bool {
	page := harmOf(text)
	if page == "" {
		return false
	}
	fmt.Fprintf(w, "A command that can destroy data or take a volume from a pod. Read its page before it is run:\n  Page      %s\n\n", safetext.Kubectl("volume-doctor", "explain", page))
	return true
}

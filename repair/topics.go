package repair

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed docs/*.md
var docs embed.FS

// Topic is a page about an action on a volume, which may be a kind of repair or harmful advice.
type Topic struct {
	Name string
	// Never reports whether this tool refuses to do it, whoever advises it.
	Never bool
}

// Topics are the pages: the kinds of repair from the lowest risk up, then the
// advice that does harm.
func Topics() []Topic {
	topics := []Topic{{Name: string(Wait)}}
	for _, kind := range Kinds() {
		topics = append(topics, Topic{Name: string(kind)})
	}
	for _, name := range []string{
		"delete-volumeattachment", "null-finalizers", "force-delete-pod", "taint-a-live-node", "delete-node", "cloud-detach",
		"switch-to-rwx", "remove-pv-protection", "edit-volumes-in-use", "set-attached-true", "restart-at-random", "edit-vendor-status",
		"lazy-unmount", "remove-kubelet-directories", "overwrite-file-system", "delete-claim", "delete-disk", "break-lock", "cut-device", "edit-etcd",
	} {
		topics = append(topics, Topic{Name: name, Never: true})
	}
	return topics
}

// Doc is the page, in Markdown.
func (t Topic) Doc() string {
	page, err := docs.ReadFile("docs/" + t.Name + ".md")
	if err != nil {
		panic(fmt.Sprintf("topic %s has no page: %v", t.Name, err))
	}
	return string(page)
}

// Title is the page's first sentence.
func (t Topic) Title() string {
	_, text, _ := strings.Cut(t.Doc(), "\n\n")
	title, _, _ := strings.Cut(text, "\n\n")
	return strings.TrimSuffix(strings.ReplaceAll(title, "\n", " "), ".")
}

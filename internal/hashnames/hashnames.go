// Package hashnames replaces the names in a snapshot that show whose it is: those of nodes,
// namespaces, pods and their workloads, hosts and addresses. The same name becomes the same
// hash everywhere, so that the diagnosis of the snapshot stays the same.
package hashnames

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Names has the replacement of each name of a snapshot.
type Names struct {
	key []byte
	// new has the replacement of a name wherever the name is a whole word; a text that stays
	// unchanged, such as a driver's name that contains the name of a namespace, is replaced
	// by itself.
	new map[string]string
	// words are names of one ordinary word, which any text may contain: they are replaced
	// where a field holds nothing else, and in a text that calls them a name.
	words map[string]string
	// inside are the pods and claims, as NAMESPACE/NAME: in a text of this form both parts
	// are names.
	inside map[string]bool
	taken  map[string]string // the name, by its replacement
	counts Counts
}

// Counts are how many names of each kind were replaced.
type Counts struct{ Nodes, Namespaces, Workloads, Pods, Hosts, Addresses int }

// Of finds the names in the snapshot. The hashes depend on the key, so that nobody can check
// a guessed name.
func Of(s *snapshot.Snapshot, key string) *Names {
	n := &Names{key: []byte(key), new: map[string]string{}, words: map[string]string{}, inside: map[string]bool{}, taken: map[string]string{}}
	found := find(s)
	for _, id := range found.uids {
		n.new[id] = id
	}
	for driver := range found.drivers {
		n.new[driver], n.new[reconcile.AttacherName(driver)] = driver, reconcile.AttacherName(driver)
	}
	for _, kind := range []struct {
		prefix string
		names  map[string]bool
		count  *int
	}{{"node", found.nodes, &n.counts.Nodes}, {"ns", found.namespaces, &n.counts.Namespaces}, {"app", found.workloads, &n.counts.Workloads}, {"host", found.hosts, &n.counts.Hosts}} {
		for _, name := range slices.Sorted(maps.Keys(kind.names)) {
			if n.add(name, kind.prefix) {
				*kind.count++
			}
		}
	}
	for _, p := range s.Pods {
		n.addPod(p)
	}
	for _, p := range s.Pods {
		for _, name := range []string{p.Spec.Hostname, p.Spec.Subdomain} {
			if n.add(name, "host") {
				n.counts.Hosts++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.pods)) { // pods that no longer exist
		if n.add(name, "pod") {
			n.counts.Pods++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.others)) {
		n.add(name, "name")
	}
	for _, p := range s.Pods {
		n.inside[p.Namespace+"/"+p.Name] = true
	}
	for _, c := range s.Claims {
		n.inside[c.Namespace+"/"+c.Name] = true
	}
	n.addAttachments(s)
	return n
}

// addAttachments renames the VolumeAttachments whose names the controller computes from the
// volume, the driver and the node to the names that it would compute now.
func (n *Names) addAttachments(s *snapshot.Snapshot) {
	handles := map[string]set{} // by driver
	keep := func(driver, handle string) {
		if handles[driver] == nil {
			handles[driver] = set{}
		}
		handles[driver][handle] = true
	}
	add := func(volume corev1.UniqueVolumeName) {
		if driver, handle, ok := reconcile.ParseCSI(volume); ok {
			keep(driver, handle)
		}
	}
	world := reconcile.NewWorld(s, reconcile.Options{})
	addVolume := func(pv *corev1.PersistentVolume) {
		if csi := pv.Spec.CSI; csi != nil {
			keep(csi.Driver, csi.VolumeHandle)
		} else if name, err := world.VolumeName(pv); err == nil { // in-tree
			add(name)
		}
	}
	for _, pv := range s.Volumes {
		addVolume(pv)
	}
	for _, va := range s.VolumeAttachments {
		if inline := va.Spec.Source.InlineVolumeSpec; inline != nil {
			addVolume(&corev1.PersistentVolume{Spec: *inline})
		}
	}
	for _, node := range s.Nodes {
		for _, v := range node.Status.VolumesAttached {
			add(v.Name)
		}
		for _, v := range node.Status.VolumesInUse {
			add(v)
		}
	}
	for _, va := range s.VolumeAttachments {
		driver, node := va.Spec.Attacher, types.NodeName(va.Spec.NodeName)
		is := func(handle string) bool { return reconcile.IsVolumeAttachmentName(va.Name, handle, driver, node) }
		handle := ""
		if volume, err := world.AttachmentVolume(va); err == nil {
			_, handle, _ = reconcile.ParseCSI(volume)
		}
		if !is(handle) {
			handle = ""
			for h := range handles[driver] {
				if is(h) {
					handle = h
				}
			}
		}
		if handle != "" {
			n.new[va.Name] = reconcile.VolumeAttachmentName(n.In(handle), driver, types.NodeName(n.In(va.Spec.NodeName)))
		}
	}
}

// add gives the name a hash, unless it has one or is common to all clusters. It reports
// whether it did.
func (n *Names) add(name, prefix string) bool {
	if name == "" || n.knows(name) || common[name] || strings.HasPrefix(name, "kube-") {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		n.new[name] = n.address(name)
		return true
	}
	if first, rest, ok := strings.Cut(name, "."); ok && (prefix == "node" || prefix == "host") {
		// Programs also name a host without its domain.
		if !n.knows(first) {
			n.set(first, n.hash(prefix, first))
		}
		n.set(name, n.In(first)+"."+n.hash("domain", rest))
		return true
	}
	n.set(name, n.hash(prefix, name))
	return true
}

// addPod replaces in a pod's name only the workload's name: the ordinal or random part stays.
func (n *Names) addPod(p *corev1.Pod) {
	if strings.HasPrefix(p.Namespace, "kube-") {
		return // of Kubernetes itself; a static pod has its node's name in its own
	}
	if name, rest := workloadOf(p); name != "" && !n.knows(p.Name) {
		owner := n.In(name) + rest
		if rest != "" && !n.knows(name+rest) {
			n.set(name+rest, owner)
		}
		if drawn, ok := strings.CutPrefix(p.Name, name+rest+"-"); ok {
			n.set(p.Name, owner+"-"+drawn)
			n.counts.Pods++
			return
		}
	}
	if n.add(p.Name, "pod") {
		n.counts.Pods++
	}
	if held := reconcile.AttacherName(p.Name); held != p.Name { // as a leader names itself
		n.set(held, reconcile.AttacherName(n.In(p.Name)))
	}
}

func (n *Names) knows(name string) bool { return n.new[name] != "" || n.words[name] != "" }

func (n *Names) set(name, to string) {
	if strings.ContainsAny(name, "0123456789.-") && strings.ContainsFunc(name, isLetter) {
		n.new[name] = to
	} else {
		n.words[name] = to
	}
}

// hash is a hash that no other name has.
func (n *Names) hash(prefix, name string) string {
	for more := ""; ; more += "'" {
		mac := hmac.New(sha256.New, n.key)
		_, _ = mac.Write([]byte(name + more))
		to := prefix + "-" + hex.EncodeToString(mac.Sum(nil)[:5])
		if of, taken := n.taken[to]; !taken || of == name {
			n.taken[to] = name
			return to
		}
	}
}

// address is an address from a range that nobody uses: 240.0.0.0/4 or 2001:db8::/32.
func (n *Names) address(of string) string {
	addr, err := netip.ParseAddr(of)
	if err != nil || addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() ||
		addr.Is4() && addr.IsLinkLocalUnicast() { // for example a cloud's metadata service
		return of
	}
	for more := ""; ; more += "'" {
		mac := hmac.New(sha256.New, n.key)
		_, _ = mac.Write([]byte(addr.String() + more))
		sum := mac.Sum(nil)
		var to netip.Addr
		if addr.Is4() {
			to = netip.AddrFrom4([4]byte{240 | sum[0]&7, sum[1], sum[2], sum[3]})
		} else {
			to = netip.AddrFrom16([16]byte(append([]byte{0x20, 0x01, 0x0d, 0xb8}, sum[:12]...)))
		}
		if known, taken := n.taken[to.String()]; !taken || known == addr.String() {
			if !taken {
				n.counts.Addresses++
			}
			n.taken[to.String()] = addr.String()
			return to.String()
		}
	}
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func isWord(b byte) bool { return '0' <= b && b <= '9' || isLetter(rune(b)) }

func isName(b byte) bool { return isWord(b) || b == '-' || b == '.' }

var (
	uid = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// dashed matches a host that a cloud names by its address, also for a machine that no
	// longer exists.
	dashed = regexp.MustCompile(`^ip(?:-[0-9]{1,3}){4}(?:\.[a-z0-9-]+)*`)
	// iqn matches the name of an iSCSI target or initiator. It contains its owner's domain,
	// reversed.
	iqn = regexp.MustCompile(`^(iqn\.[0-9]{4}-[0-9]{2}\.)([a-z0-9-]+(?:\.[a-z0-9-]+)*)`)
	// address matches what may be an address; netip decides.
	address = regexp.MustCompile(`^(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F]{0,4}:[0-9a-fA-F:]+[0-9a-fA-F:.]*)`)
	// said matches a word that a text calls a name: node alpha, pod "web".
	said = regexp.MustCompile(`(?i)\b((?:nodes?|pods?|pod\(s\)|namespaces?|claims?|persistentvolumeclaims?|hosts?|machines?|deployments?|statefulsets?|replicasets?|daemonsets?|jobs?) ["']?)([a-z]+)\b`)
	// who matches the name of a user, or of a component that an administrator has put in
	// front of the API server.
	who = regexp.MustCompile(`(?i)((?:\busers?|webhook|AdmissionPolicy|with binding) ["'])([^"'\s]+)(["'])`)
	// account matches a service account as a user: its namespace and its name.
	account = regexp.MustCompile(`\b(system:serviceaccounts?:)([a-z0-9-]+)(:?)((?:[a-z0-9.-]*[a-z0-9])?)`)
	// mail matches a person's mail address.
	mail = regexp.MustCompile(`^[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}`)
	// pair matches a namespace and a name in it.
	pair = regexp.MustCompile(`\b([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9.-]*[a-z0-9]|[a-z0-9])`)
)

// In replaces the names in a text, or in a field that holds one.
func (n *Names) In(text string) string {
	if to, ok := n.words[text]; ok {
		return to
	}
	return n.inText(text)
}

// inText is In for a text that is not just one name.
func (n *Names) inText(text string) string {
	if len(n.words) > 0 {
		text = pair.ReplaceAllStringFunc(text, func(both string) string {
			namespace, name, _ := strings.Cut(both, "/")
			if !n.inside[both] {
				return both
			}
			return n.whole(namespace) + "/" + n.whole(name)
		})
		text = said.ReplaceAllStringFunc(text, func(found string) string {
			parts := said.FindStringSubmatch(found)
			if to, ok := n.words[parts[2]]; ok {
				return parts[1] + to
			}
			return found
		})
	}
	text = who.ReplaceAllStringFunc(text, func(found string) string {
		parts := who.FindStringSubmatch(found)
		return parts[1] + n.other(parts[2], "name") + parts[3]
	})
	text = account.ReplaceAllStringFunc(text, func(found string) string {
		parts := account.FindStringSubmatch(found)
		if strings.HasPrefix(parts[2], "kube-") {
			return found
		}
		return parts[1] + n.other(parts[2], "ns") + parts[3] + n.other(parts[4], "name")
	})
	var b strings.Builder
	for i := 0; i < len(text); {
		if i > 0 && isWord(text[i-1]) || !isWord(text[i]) && text[i] != ':' {
			b.WriteByte(text[i])
			i++
			continue
		}
		old, to := n.next(text[i:])
		b.WriteString(to)
		i += len(old)
	}
	return b.String()
}

// other is a hash for a name that no object has, unless all clusters have the name.
func (n *Names) other(name, prefix string) string {
	if n.knows(name) || ofAll(name) {
		return n.whole(name)
	}
	return n.hash(prefix, name)
}

// ofAll reports whether every cluster has something of this name.
func ofAll(name string) bool {
	return name == "" || common[name] || strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "kubernetes-")
}

// whole replaces a name that stands alone; a name from a pair keeps the form of the hash,
// which no later step takes for a name.
func (n *Names) whole(name string) string {
	if to, ok := n.words[name]; ok {
		return to
	}
	return name
}

// next is the longest name at the beginning of the text, with its replacement; where there is
// none, it is the text's first characters up to the end of a word, unchanged.
func (n *Names) next(text string) (old, to string) {
	if found := uid.FindString(text); found != "" {
		return found, found
	}
	if found := mail.FindString(text); found != "" {
		return found, n.hash("name", found)
	}
	end := 0
	for end < len(text) && isName(text[end]) {
		end++
	}
	for e := end; e > 0; e-- {
		if e < len(text) && isWord(text[e]) || !isWord(text[e-1]) {
			continue
		}
		if to, ok := n.new[text[:e]]; ok {
			return text[:e], to
		}
	}
	if found := address.FindString(text); found != "" {
		for e := len(found); e > 1; e-- {
			if e < len(text) && (isWord(text[e]) || text[e] == '.' && e+1 < len(text) && isWord(text[e+1])) {
				continue
			}
			if _, err := netip.ParseAddr(found[:e]); err == nil {
				return found[:e], n.address(found[:e])
			}
		}
	}
	if found := iqn.FindStringSubmatch(text); found != nil {
		return found[0], found[1] + n.hash("domain", found[2])
	}
	if found := dashed.FindString(text); found != "" {
		n.add(found, "node")
		return found, n.In(found)
	}
	word := 1
	for word < len(text) && isWord(text[word-1]) && isWord(text[word]) {
		word++
	}
	return text[:word], text[:word]
}

// Counts are the numbers of names that were replaced so far.
func (n *Names) Counts() Counts { return n.counts }

package apply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// The digest is the last field of every line of a journal. It is the SHA-256 of the previous
// line's digest and of this line without its own digest, so it covers every byte of the
// journal up to here.
//
// The chain has no key. It shows that a journal was edited, reordered, spliced or cut
// anywhere but at its end. It does not stop somebody who computes all digests again, and a
// journal that lost whole lines at its end looks like a shorter one. Undo therefore never
// relies on the journal alone: it looks at the objects.
const (
	digestStart = `,"digest":"`
	digestEnd   = `"}`
)

var (
	errNoDigest = errors.New("the entry has no digest, so nothing shows that it is unchanged")
	errChain    = errors.New("the entry does not continue the one before it: one of the two was changed, moved or removed")
)

// digestOf is the digest of an entry whose line without the digest is body.
func digestOf(previous string, body []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s", previous, body)
	return hex.EncodeToString(sum.Sum(nil))
}

// seal sets the entry's digest and returns its line, with the newline.
func seal(previous string, e *Entry) []byte {
	e.Digest = ""
	e.Digest = digestOf(previous, repair.Compact(*e))
	return append(repair.Compact(*e), '\n')
}

// continues returns an error unless the line, with its newline, follows the line with the digest
// previous; "" is the beginning of the journal.
func continues(previous string, line []byte) error {
	const hexLength = 2 * sha256.Size
	text := bytes.TrimSuffix(line, []byte("\n"))
	at := len(text) - len(digestStart) - hexLength - len(digestEnd)
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(digestStart)) || !bytes.HasSuffix(text, []byte(digestEnd)) {
		return errNoDigest
	}
	digest := text[at+len(digestStart) : len(text)-len(digestEnd)]
	body := append(bytes.Clone(text[:at]), '}')
	if digestOf(previous, body) != string(digest) {
		return errChain
	}
	return nil
}

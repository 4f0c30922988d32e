package finding

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Suppression hides the findings of one check that somebody has decided to live
// with. Of its other fields each that is set must fit as well.
type Suppression struct {
	// Check is the check's name.
	Check string
	// Namespace is the only one that the finding touches.
	Namespace string
	// Name is a pattern for the name of the finding's subject, as in web-*.
	Name string
	Node string
	// Volume is the controller's unique name of the volume, or the
	// PersistentVolume's.
	Volume      string
	Fingerprint string
	// Reason says why; there is always one.
	Reason string
	// Until is the last day on which it holds, in UTC; zero is for good.
	Until time.Time
	// File has it, and Line is where it stands there.
	File string
	Line int
}

// Expired reports whether the last day of the suppression is over.
func (s Suppression) Expired(now time.Time) bool {
	return !s.Until.IsZero() && !now.Before(s.Until.AddDate(0, 0, 1))
}

// Hides reports whether the suppression is about the finding.
func (s Suppression) Hides(f Finding) bool {
	name, _ := path.Match(s.Name, f.Subject.Name) // the pattern was tried when it was read
	return s.Check == f.Check &&
		(s.Name == "" || name) &&
		(s.Namespace == "" || touchesOnly(f, s.Namespace)) &&
		(s.Node == "" || s.Node == string(f.Node) || s.Node == f.Subject.Name && f.Subject.Kind == "Node") &&
		(s.Volume == "" || s.Volume == string(f.Volume) || s.Volume == f.PersistentVolume) &&
		(s.Fingerprint == "" || s.Fingerprint == f.Fingerprint)
}

// touchesOnly reports whether the finding is a matter of the namespace and of no
// other: by its subject, its pods and its claims.
func touchesOnly(f Finding, namespace string) bool {
	touched := slices.Concat(f.Pods, f.Claims)
	if in := f.Subject.Namespace; in != "" {
		touched = append(touched, in+"/"+f.Subject.Name)
	}
	return len(touched) > 0 && !slices.ContainsFunc(touched, func(name string) bool { return !strings.HasPrefix(name, namespace+"/") })
}

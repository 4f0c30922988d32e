package finding

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Suppression hides the findings of one check that somebody has decided to live with. Each of its
// other fields that is set must match, too.
type Suppression struct {
	// Check is the check's name.
	Check string
	// Namespace is the only namespace that the finding touches.
	Namespace string
	// Name is a pattern for the name of the finding's subject, as in web-*.
	Name string
	Node string
	// Volume is the controller's unique name of the volume, or the
	// PersistentVolume's.
	Volume      string
	Fingerprint string
	// Reason is why; it is never empty.
	Reason string
	// Until is the last day on which it applies, in UTC; zero means for ever.
	Until time.Time
	// File is the file with the suppression, and Line its line there.
	File string
	Line int
}

// Expired reports whether the last day of the suppression is over.
func (s Suppression) Expired(now time.Time) bool {
	return !s.Until.IsZero() && !now.Before(s.Until.AddDate(0, 0, 1))
}

// Hides reports whether the suppression matches the finding.
func (s Suppression) Hides(f Finding) bool {
	name, _ := path.Match(s.Name, f.Subject.Name) // the pattern was checked when it was read
	return s.Check == f.Check &&
		(s.Name == "" || name) &&
		(s.Namespace == "" || touchesOnly(f, s.Namespace)) &&
		(s.Node == "" || s.Node == string(f.Node) || s.Node == f.Subject.Name && f.Subject.Kind == "Node") &&
		(s.Volume == "" || s.Volume == string(f.Volume) || s.Volume == f.PersistentVolume) &&
		(s.Fingerprint == "" || s.Fingerprint == f.Fingerprint)
}

// touchesOnly reports whether the finding touches the namespace and no other: by its subject,
// its pods and its claims.
func touchesOnly(f Finding, namespace string) bool {
	touched := slices.Concat(f.Pods, f.Claims)
	if in := f.Subject.Namespace; in != "" {
		touched = append(touched, in+"/"+f.Subject.Name)
	}
	return len(touched) > 0 && !slices.ContainsFunc(touched, func(name string) bool { return !strings.HasPrefix(name, namespace+"/") })
}

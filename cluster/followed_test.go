package cluster

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWitness: an attempt counts as one of after another VolumeAttachment's end only where
// the refusal before it was seen to be written after that end.
func TestWitness(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	refused := func(uid string, n int) *storagev1.VolumeAttachment {
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "waits", UID: types.UID(uid)}}
		if n > 0 {
			va.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(start.Add(time.Duration(n) * time.Minute))}
		}
		return va
	}
	other := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "o"}}
	isOther := func(va *storagev1.VolumeAttachment) bool { return va.Name == "other" }
	tests := []struct {
		name  string
		sees  func(w *witness)
		now   *storagev1.VolumeAttachment
		alone bool
	}{
		{"nothing", func(*witness) {}, refused("w", 1), false},
		{"refused once", func(w *witness) { w.saw(refused("w", 1), refused("w", 2)) }, refused("w", 2), false},
		{"refused twice", func(w *witness) { w.saw(refused("w", 1), refused("w", 2)); w.saw(refused("w", 2), refused("w", 3)) }, refused("w", 3), true},
		{"written twice with one refusal", func(w *witness) { w.saw(refused("w", 1), refused("w", 2)); w.saw(refused("w", 2), refused("w", 2)) }, refused("w", 2), false},
		{"the other went between", func(w *witness) {
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(other, nil)
			w.saw(refused("w", 2), refused("w", 3))
		}, refused("w", 3), false},
		{"refused twice since the other went", func(w *witness) {
			w.saw(other, nil)
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(refused("w", 2), refused("w", 3))
		}, refused("w", 3), true},
		{"the other went last", func(w *witness) {
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(refused("w", 2), refused("w", 3))
			w.saw(other, nil)
		}, refused("w", 3), false},
		{"a list was read", func(w *witness) {
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(refused("w", 2), refused("w", 3))
			w.began()
		}, refused("w", 3), false},
		{"made anew", func(w *witness) {
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(refused("w", 2), refused("new", 3))
		}, refused("new", 3), false},
		{"the list is newer", func(w *witness) {
			w.saw(refused("w", 1), refused("w", 2))
			w.saw(refused("w", 2), refused("w", 3))
		}, refused("w", 4), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &witness{}
			if w.saw(nil, refused("w", 1)); w.followed(nil, nil) != nil {
				t.Error("it tells before it has begun")
			}
			w.began()
			test.sees(w)
			held := test.now.DeepCopy()
			if test.name == "the list is newer" {
				held = refused("w", 3)
			}
			f := w.followed([]*storagev1.VolumeAttachment{test.now}, []*storagev1.VolumeAttachment{held})
			asked, known := f.Asked["waits"]
			if alone := known && asked.After(f.Stood(isOther)); alone != test.alone {
				t.Errorf("refused alone: %v, want %v (%+v)", alone, test.alone, f)
			}
		})
	}
	// One that is followed and not in the list is about to be seen to go.
	w := &witness{}
	w.began()
	if f := w.followed(nil, []*storagev1.VolumeAttachment{other}); len(f.Gone) != 1 || !f.Stood(isOther).After(f.Since) {
		t.Errorf("%+v", f)
	}
}

// TestWitnessForgets: beyond what it keeps, a VolumeAttachment counts as gone when the
// last one that is forgotten went.
func TestWitnessForgets(t *testing.T) {
	w := &witness{}
	w.began()
	began := w.since
	for range keptGone + 1 {
		w.saw(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "1"}}, nil)
	}
	if len(w.gone) != keptGone || !w.since.After(began) {
		t.Errorf("%d are kept, since %v", len(w.gone), w.since.Sub(began))
	}
}

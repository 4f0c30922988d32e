// Command looks holds the model that it was built with against recorded looks at real
// kubelets until one contradicts it, and prints the first difference as JSON.
package main

import (
	"errors"
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelettrace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/mutation/found"
)

func main() { found.Main(judge) }

// judge is for a file of kubelettrace.Recorded.
func judge(file string) (result found.Result, err error) {
	var failed error
	err = kubelettrace.ReadRecorded(file, func(r kubelettrace.Recorded) bool {
		result.Difference, failed = compare(r, &result.Rows)
		return failed == nil && result.Difference == nil
	})
	return result, errors.Join(err, failed)
}

// compare returns nil where the look agrees with the model. A model that panics differs.
func compare(r kubelettrace.Recorded, rows *int) (d *found.Difference, err error) {
	d = &found.Difference{Release: r.Release, Row: r.When}
	defer func() {
		if p := recover(); p != nil {
			d.Model, err = fmt.Sprint("it panics: ", p), nil
		}
	}()
	n, wrong, err := r.Compare()
	*rows += n
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	d.Model = wrong[0]
	return d, nil
}

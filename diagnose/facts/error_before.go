package facts

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
)

// follows are the meanings of errors that only follow from an earlier one: a call still runs, did
// not end in time, or is not made yet.
var follows = []driverwords.Meaning{driverwords.OperationPending, driverwords.BackedOff, driverwords.TimedOut}

// ErrorBefore is the newest of the failures, oldest first, that says why the volume fails, where
// the driver's present message only follows from an earlier error.
func ErrorBefore(driver, message string, failures []MountFailure) (MountFailure, bool) {
	entry, known := DriverSays(driver, message)
	if !known || entry.Meaning != driverwords.OperationPending && entry.Meaning != driverwords.BackedOff {
		return MountFailure{}, false
	}
	for _, f := range slices.Backward(failures) {
		if before, known := DriverSays(driver, f.Reason); known && !before.Wrapper && !slices.Contains(follows, before.Meaning) {
			return f, true
		}
	}
	return MountFailure{}, false
}

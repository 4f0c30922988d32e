package finding

// Code identifies a check for good: a retired code is never used again. Its first digit is the
// layer: 1 attached without being wanted, 2 multi-attach, 3 node status, 4 wanted but blocked, 5
// volume resolution, 6 driver.
type Code string

// Severity is how much a finding matters.
type Severity string

// The severities, and the threshold that none of them reaches.
const (
	Info    Severity = "info"    // worth knowing; nothing is wrong
	Warning Severity = "warning" // wrong, or about to be; nothing waits for it yet
	Error   Severity = "error"   // a pod waits for it, or data is at risk
	Never   Severity = "never"   // only as a threshold
)

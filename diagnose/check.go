// Package diagnose runs coded checks over a snapshot and the worlds rebuilt
// from it, and gathers what they find in a report.
package diagnose

import (
	"embed"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Code identifies a check for good: a retired code is never used again. The
// hundreds stand for the layer: 1 attached without being wanted, 2 multi-attach,
// 3 node status, 4 wanted but blocked, 5 volume resolution, 6 driver.
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

// Check produces the findings of exactly one code.
type Check struct {
	Code Code
	// Name is the failure mode's name, in lower case with hyphens.
	Name string
	// Title is one line for lists.
	Title string
	// Severity is that of its findings where they do not say otherwise.
	Severity Severity
	// Needs are the kinds whose absence would make the check guess: a gap in
	// one of them skips it. A kind that only ever keeps the check from speaking
	// belongs here too, or less to read would mean more to report.
	Needs []snapshot.Kind
	// Run is nil where no API object shows the failure: its page says what to
	// look at on the node or in the cloud.
	Run func(*Pass)
}

// Checks are all checks in the order of their codes.
func Checks() []Check {
	return []Check{
		danglingAfterKCMRestart,
		nodeLost6Min,
		vaStuckDeleting,
		inuseStuckUnmountFailed,
		uncertainAfterFailedAttach,
		leaderChangeDetachesLive,
		terminatedPodHoldsVolume,
		attachabilityFlipped,
		forceDeletedPod,
		oosTaintMisuse,
		gracefulShutdownLeavesInuse,
		autoscalerDeletesBeforeDetach,
		nodeTerminationBlockedByVA,
		vaRecreatedOnDeadNode,
		attachToDeletedNodeDetachFails,
		forceDetachedWhileMounted,
		spotPreemption,
		hibernationOrphansVAs,
		vaPVMissing,
		foreignVA,
		pvRecreatedUnderVA,
		thirdPartyDeletesVAs,
		lateDetachKillsNewAttach,
		etcdRewind,
		detachAsksNewMachine,
		twoVAsOneRWO,
		rwoRolloutDeadlock,
		rwoManyConsumers,
		rwopConflict,
		inuseNotAttached,
		attachedPhantom,
		volumesAttachedWiped,
		inuseLost,
		inuseNotReported,
		inuseClobbered,
		sameNameNewInstance,
		attachedTrueButNot,
		nodeIDDiffers,
		topologyLabelMissing,
		reuseWhileDetaching,
		nodeNotControllerManaged,
		stsTerminatingOnDeadNode,
		orphanBackendAttachment,
		attachedButNotRecorded,
		vaNeverProcessed,
		seLinuxLabelConflict,
		podsOnUnmanagedNode,
		claimRefStale,
		pvTerminatingVAExists,
		pvFinalizerWithoutVA,
		pvcLostOrDoubleClaim,
		duplicateVolumeHandle,
		topologyMismatch,
		migrationNameSwitch,
		migratedInlineVA,
		migratedVANotGC,
		migrationConfigMismatch,
		volumeExpansionStuck,
		driverUninstalled,
		csiNodeDriverMissing,
		csiDriverMissing,
		attacherDown,
		attacherZombieLeader,
		publishSecretMissing,
		driverRenamed,
		attachLimit,
		attacherThrottled,
		backendSideStuck,
		driverCRDisagrees,
		migrationNoCSIDriver,
		pluginNotRegistered,
		driverGoneUnderPods,
		registeredButNotServed,
		registrationLost,
		csiNodeNotInitialized,
		csiNodeOfFormerNode,
		twoPluginsOneDriver,
	}
}

//go:embed docs/*.md
var docs embed.FS

// Doc is the page on the check's failure mode, in Markdown.
func (c Check) Doc() string {
	page, err := docs.ReadFile("docs/" + string(c.Code) + ".md")
	if err != nil {
		panic(fmt.Sprintf("check %s has no page: %v", c.Code, err))
	}
	return string(page)
}

// Pass is one run of one check.
type Pass struct {
	Snapshot *snapshot.Snapshot
	World    *reconcile.World
	Plan     *reconcile.Plan

	check    Check
	findings []Finding
	memory   *remembered
}

// Report records a finding of the check that runs.
func (p *Pass) Report(f Finding) {
	f.Code, f.Check = p.check.Code, p.check.Name
	if f.Severity == "" {
		f.Severity = p.check.Severity
	}
	f.Fingerprint = fingerprint(f)
	p.nameUpstreamBug(&f)
	p.findings = append(p.findings, f)
}

// Age is the time from t to the moment of the snapshot.
func (p *Pass) Age(t metav1.Time) time.Duration { return p.Snapshot.TakenAt.Sub(t.Time) }

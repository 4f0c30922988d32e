package finding

// UpstreamBug is a bug of Kubernetes that brings such findings about and that
// the release at work has.
type UpstreamBug struct {
	// Issue is where it was reported.
	Issue string `json:"issue"`
	// Component has it: kube-controller-manager, or the kubelet of the finding's node.
	Component string `json:"component"`
	// FixedIn is the next release without it.
	FixedIn string `json:"fixedIn"`
}

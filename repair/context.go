package repair

import "strings"

// InContext is a command of Operation.Kubectl for another cluster than the
// current one: by the name of its context in the kubeconfig.
func InContext(command, context string) string {
	const kubectl = "kubectl "
	at := 0
	if !strings.HasPrefix(command, kubectl) {
		// What follows the last pipe has no quotes in which another could stand.
		if at = strings.LastIndex(command, "| "+kubectl); at < 0 {
			return command
		}
		at += len("| ")
	}
	at += len(kubectl)
	return command[:at] + "--context=" + shellQuote(context) + " " + command[at:]
}

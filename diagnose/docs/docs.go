// Package docs holds the page of each check, in Markdown.
package docs

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Page returns the page of the check with the code. Every check has one.
func Page(code string) string {
	page, err := pages.ReadFile(code + ".md")
	if err != nil {
		panic(fmt.Sprintf("check %s has no page: %v", code, err))
	}
	return string(page)
}

// About is the page's paragraph about what is wrong. On the page it follows what to do now and
// the commands for that.
func About(code string) string {
	parts := strings.SplitN(Page(code), "\n\n", 5)
	if len(parts) < 5 {
		panic(fmt.Sprintf("the page of check %s does not begin with what to do now", code))
	}
	return parts[3]
}

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

// About is the page's paragraph about what is wrong, the last one before its sections. What to do
// now stands before it.
func About(code string) string {
	top, _, _ := strings.Cut(Page(code), "\n\n## ")
	return top[strings.LastIndex(top, "\n\n")+2:]
}

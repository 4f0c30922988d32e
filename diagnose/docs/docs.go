// Package docs holds the page of each check, in Markdown.
package docs

import (
	"embed"
	"fmt"
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

package doccheck

import (
	"regexp"
	"strings"
	"unicode"
)

// Page is what there is to check in a Markdown file.
type Page struct {
	Blocks   []Block
	Spans    []Text // `code`
	Links    []Text // targets of links and images
	Tests    []Text // names of tests and of scripts of failures, wherever they stand
	Headings map[string]bool
}

// Text is a piece of a page.
type Text struct {
	Line int
	Text string
}

// Block is fenced code.
type Block struct {
	Line     int // of its first line of code
	Language string
	Lines    []string
}

var (
	spanPattern = regexp.MustCompile("`([^`]+)`")
	linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	testPattern = regexp.MustCompile(`\b(?:(?:Test|Example|Fuzz)[A-Z]\w*|failure_\d\d\w+)`)
	htmlPattern = regexp.MustCompile(`(?:src|srcset|href)="([^"]+)"`)
)

// ReadPage takes a Markdown text apart.
func ReadPage(text string) *Page {
	p := &Page{Headings: map[string]bool{}}
	var block *Block
	var fence string
	seen := map[string]int{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case block != nil && strings.TrimRight(trimmed, " ") == fence:
			p.Blocks = append(p.Blocks, *block)
			block = nil
			continue
		case block != nil:
			block.Lines = append(block.Lines, line)
			continue
		case strings.HasPrefix(trimmed, "```"):
			rest := strings.TrimLeft(trimmed, "`")
			fence = trimmed[:len(trimmed)-len(rest)]
			block = &Block{Line: n + 1, Language: strings.TrimSpace(rest)}
			continue
		}
		if heading := strings.TrimLeft(line, "#"); len(heading) < len(line) && strings.HasPrefix(heading, " ") {
			anchor := anchorOf(heading)
			p.Headings[numbered(anchor, seen[anchor])] = true
			seen[anchor]++
		}
		for _, m := range testPattern.FindAllString(line, -1) {
			p.Tests = append(p.Tests, Text{n, m})
		}
		for _, m := range spanPattern.FindAllStringSubmatch(line, -1) {
			p.Spans = append(p.Spans, Text{n, m[1]})
		}
		prose := spanPattern.ReplaceAllString(line, "code")
		for _, pattern := range []*regexp.Regexp{linkPattern, htmlPattern} {
			for _, m := range pattern.FindAllStringSubmatch(prose, -1) {
				p.Links = append(p.Links, Text{n, m[1]})
			}
		}
	}
	if block != nil { // to the end of the file, as Markdown has it
		p.Blocks = append(p.Blocks, *block)
	}
	return p
}

// anchorOf returns the anchor that GitHub gives to a heading.
func anchorOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// numbered tells equal headings apart.
func numbered(anchor string, n int) string {
	if n == 0 {
		return anchor
	}
	digits := ""
	for ; n > 0; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return anchor + "-" + digits
}

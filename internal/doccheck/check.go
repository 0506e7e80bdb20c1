package doccheck

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Check returns what is wrong with the pages, one line each.
func (s *Source) Check() ([]string, error) {
	var all []string
	for _, file := range s.pages {
		text, err := fs.ReadFile(s.tree, file)
		if err != nil {
			return nil, err
		}
		all = append(all, s.CheckPage(file, string(text))...)
	}
	return all, nil
}

// Blocks calls f with every piece of fenced code of a language in the pages.
func (s *Source) Blocks(language string, f func(file string, b Block)) error {
	for _, file := range s.pages {
		text, err := fs.ReadFile(s.tree, file)
		if err != nil {
			return err
		}
		for _, b := range ReadPage(string(text)).Blocks {
			if b.Language == language {
				f(file, b)
			}
		}
	}
	return nil
}

// CheckPage returns what is wrong with one page.
func (s *Source) CheckPage(file, text string) []string {
	c := &checker{Source: s, file: file, page: ReadPage(text)}
	for _, b := range c.page.Blocks {
		c.block(b)
	}
	for _, l := range c.page.Links {
		c.link(l)
	}
	for _, t := range c.page.Spans {
		c.span(t)
	}
	for _, t := range c.page.Tests {
		if !c.names[t.Text] && !c.scripts[t.Text] {
			c.fault(t.Line, "%s: there is no such test or script", t.Text)
		}
	}
	return c.faults
}

type checker struct {
	*Source
	file   string
	page   *Page
	faults []string
}

func (c *checker) fault(line int, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("%s:%d: %s", c.file, line, fmt.Sprintf(format, args...)))
}

func (c *checker) block(b Block) {
	switch b.Language {
	case "go":
		c.quoted(b)
	case "sh":
		for i, line := range b.Lines {
			line, _, _ = strings.Cut(line, " #")
			for command := range strings.SplitSeq(strings.ReplaceAll(line, "|", "&&"), "&&") {
				c.command(b.Line+i, strings.TrimSpace(command))
			}
		}
	}
}

// quoted checks that code stands in a Go file as it is here, but for what it is
// indented by.
func (c *checker) quoted(b Block) {
	var want strings.Builder
	for _, line := range b.Lines {
		want.WriteString("\n" + strings.TrimSpace(line))
	}
	want.WriteString("\n")
	for _, code := range c.code {
		if strings.Contains(code, want.String()) {
			return
		}
	}
	c.fault(b.Line, "this Go code stands in no Go file; quote an Example")
}

// link checks that a relative link leads somewhere.
func (c *checker) link(l Text) {
	if strings.Contains(l.Text, "://") || strings.HasPrefix(l.Text, "mailto:") {
		return
	}
	target, anchor, _ := strings.Cut(l.Text, "#")
	file, page := c.file, c.page
	if target != "" {
		file = path.Join(path.Dir(c.file), target)
		text, err := fs.ReadFile(c.tree, file)
		if err != nil {
			if _, err := fs.Stat(c.tree, file); err != nil {
				c.fault(l.Line, "link %s: there is no %s", l.Text, file)
			}
			return
		}
		page = ReadPage(string(text))
	}
	if anchor != "" && path.Ext(file) == ".md" && !page.Headings[anchor] {
		c.fault(l.Line, "link %s: %s has no such heading", l.Text, file)
	}
}

var (
	placeholder = regexp.MustCompile(`[A-Z…]`)
	word        = regexp.MustCompile(`^[a-z]+$`)
	filePattern = regexp.MustCompile(`^[\w./-]+\.(go|md|svg|yaml|json)$`)
	snake       = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)+$`)
	camel       = regexp.MustCompile(`^[A-Z][a-z0-9]+[A-Z]\w+$`)
	member      = regexp.MustCompile(`^([A-Za-z]+)\.([A-Z]\w*)(?:\.(\w+))?$`)
)

// command checks a command line that calls go run or go test.
func (c *checker) command(line int, command string) {
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "go" || words[1] != "run" && words[1] != "test" {
		return
	}
	program := ""
	for i, w := range words[2:] {
		dir, isDir := strings.CutPrefix(w, "./")
		switch {
		case words[1] == "run" && program != "" && strings.HasPrefix(w, "-"):
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if name != "h" && !c.flags[program][name] {
				c.fault(line, "%s: ./%s defines no flag -%s", command, program, name)
			}
		case isDir && !placeholder.MatchString(w):
			dir = strings.TrimSuffix(strings.TrimSuffix(dir, "..."), "/")
			if _, err := fs.Stat(c.tree, path.Clean(dir)); err != nil {
				c.fault(line, "%s: there is no %s", command, w)
			}
			if words[1] == "run" && program == "" {
				program = path.Clean(dir)
			}
		case word.MatchString(w) && program != "" && words[2+i-1] == "./"+program:
			if !c.literals[program][w] {
				c.fault(line, "%s: ./%s knows no command %s", command, program, w)
			}
		case strings.Contains(w, "/") && path.Ext(w) == ".txt" && !placeholder.MatchString(w):
			if _, err := fs.Stat(c.tree, w); err != nil {
				c.fault(line, "%s: there is no %s", command, w)
			}
		}
	}
}

// span checks what looks like the name of something.
func (c *checker) span(t Text) {
	name, _, _ := strings.Cut(t.Text, "(")
	switch {
	case strings.HasPrefix(t.Text, "go "):
		c.command(t.Line, t.Text)
	case filePattern.MatchString(name):
		if !c.exists(name) {
			c.fault(t.Line, "`%s`: there is no such file", t.Text)
		}
	case snake.MatchString(name):
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !strings.Contains(c.text.String(), base) {
			c.fault(t.Line, "`%s`: no file speaks of it", t.Text)
		}
	case camel.MatchString(name):
		if !c.names[name] {
			c.fault(t.Line, "`%s`: no Go file has this name", t.Text)
		}
	default:
		m := member.FindStringSubmatch(name)
		if m != nil && (c.types[m[1]] || c.packs[m[1]]) && !c.names[name] {
			c.fault(t.Line, "`%s`: %s has no such member", t.Text, m[1])
		}
	}
}

// exists reports whether there is a file of that name, from the page, from the
// root or, without a directory, anywhere.
func (c *checker) exists(name string) bool {
	for _, at := range []string{path.Join(path.Dir(c.file), name), path.Clean(name)} {
		if _, err := fs.Stat(c.tree, at); err == nil {
			return true
		}
	}
	if strings.Contains(name, "/") {
		return false
	}
	isIt := func(file string) bool { return path.Base(file) == name }
	if slices.ContainsFunc(c.pages, isIt) {
		return true
	}
	for file := range c.code {
		if isIt(file) {
			return true
		}
	}
	return false
}

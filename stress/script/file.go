package script

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/datadriven"
)

const separator = "----"

// File is a parsed script. It keeps the text around the commands, so that it
// can be written again with other outputs.
type File struct {
	Steps []Step
	// Tail holds the lines after the last step.
	Tail []string
}

// Step is one command of a script.
type Step struct {
	// Lead holds the comments and blank lines before the command.
	Lead []string
	// Lines holds the command line and its input lines as they were written.
	Lines []string
	// Data is the command as datadriven parses it.
	Data datadriven.TestData
}

// Parse reads a script. Its errors name the file, as name, and the line.
//
// datadriven has no reader outside a test; this one accepts what that accepts.
// Its subtest directives only group commands, so they count as comments.
func Parse(name string, r io.Reader) (*File, error) {
	p := &parser{name: name, scanner: bufio.NewScanner(r)}
	p.scanner.Buffer(nil, 16<<20)
	f := &File{}
	for p.scan() {
		if err := p.step(f); err != nil {
			return nil, err
		}
	}
	if err := p.scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.line+1, err)
	}
	f.Tail = p.lead
	return f, nil
}

type parser struct {
	name    string
	scanner *bufio.Scanner
	line    int
	text    string
	lead    []string
}

func (p *parser) scan() bool {
	if !p.scanner.Scan() {
		return false
	}
	p.line++
	p.text = p.scanner.Text()
	return true
}

// step reads what begins at the line just scanned: a step, or one line of lead.
func (p *parser) step(f *File) error {
	pos := fmt.Sprintf("%s:%d", p.name, p.line)
	raw := p.text
	line := strings.TrimSpace(raw)
	if line == "" || strings.HasPrefix(line, "#") {
		p.lead = append(p.lead, raw)
		return nil
	}
	lines := []string{raw}
	for strings.HasSuffix(line, `\`) && p.scan() {
		lines = append(lines, p.text)
		line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(p.text)
	}
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		return fmt.Errorf("%s: %w", pos, err)
	}
	if cmd == "subtest" {
		p.lead = append(p.lead, lines...)
		return nil
	}
	s := Step{Lead: p.lead, Data: datadriven.TestData{Pos: pos, Cmd: cmd, CmdArgs: args}}
	p.lead = nil

	separated := false
	first := len(lines)
	for p.scan() {
		if p.text == separator {
			separated = true
			break
		}
		lines = append(lines, p.text)
	}
	if !separated {
		return fmt.Errorf("%s: %s: no %q before the end of the file", pos, cmd, separator)
	}
	s.Lines = lines
	s.Data.Input = strings.TrimSpace(strings.Join(lines[first:], "\n"))
	s.Data.Expected, err = p.expected()
	if err != nil {
		return fmt.Errorf("%s: %w", pos, err)
	}
	f.Steps = append(f.Steps, s)
	return nil
}

// expected reads the output up to the first blank line or, if it begins with a
// second separator, up to two of them.
func (p *parser) expected() (string, error) {
	var b strings.Builder
	if !p.scan() {
		return "", nil
	}
	if p.text != separator {
		for {
			if strings.TrimSpace(p.text) == "" {
				return b.String(), nil
			}
			fmt.Fprintln(&b, p.text)
			if !p.scan() {
				return b.String(), nil
			}
		}
	}
	for p.scan() {
		if p.text != separator {
			fmt.Fprintln(&b, p.text)
			continue
		}
		if !p.scan() {
			break
		}
		if p.text != separator {
			fmt.Fprintf(&b, "%s\n%s\n", separator, p.text)
			continue
		}
		if p.scan() && p.text != "" {
			return "", fmt.Errorf("text right after the closing %q pair", separator)
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("output without its closing %q pair", separator)
}

// Write writes the step with the given output in the format it was read from.
func (s *Step) Write(w io.Writer, output string) error {
	var b strings.Builder
	writeLines(&b, s.Lead)
	writeLines(&b, s.Lines)
	fmt.Fprintln(&b, separator)
	output = strings.TrimSuffix(output, "\n")
	if paragraphs := "\n" + output + "\n"; strings.Contains(paragraphs, "\n\n") && output != "" {
		output = separator + "\n" + output + "\n" + separator + "\n" + separator
	}
	if output != "" {
		fmt.Fprintln(&b, output)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLines(b *strings.Builder, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(b, l)
	}
}

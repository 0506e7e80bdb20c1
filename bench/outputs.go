package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime/pprof"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// outputs are the files to write.
type outputs struct {
	json, html, profile *os.File
}

// create opens them before anything runs, so that a bad name costs no run.
func (m *microOptions) create() (*outputs, error) {
	o := &outputs{}
	for _, f := range []struct {
		name string
		to   **os.File
	}{{m.json, &o.json}, {m.html, &o.html}, {m.profile, &o.profile}} {
		if f.name == "" {
			continue
		}
		file, err := os.Create(f.name)
		if err != nil {
			return o, err
		}
		*f.to = file
	}
	if o.profile != nil {
		return o, pprof.StartCPUProfile(o.profile)
	}
	return o, nil
}

// add writes the figures of a row.
func (o *outputs) add(row *report.Row) error {
	if o.json == nil {
		return nil
	}
	return row.WriteJSON(o.json)
}

// partly writes the report of what was done so far, so that whatever ends the run,
// that is there to read.
func (o *outputs) partly(c *report.Comparison) error {
	if o.html == nil {
		return nil
	}
	if info, err := o.html.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // it cannot be written anew
	}
	part := *c
	part.Partial = true
	return o.page(part.WriteHTML)
}

// page writes the page over what the file held.
func (o *outputs) page(write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if info, err := o.html.Stat(); err == nil && info.Mode().IsRegular() {
		if err := o.html.Truncate(0); err != nil {
			return err
		}
		if _, err := o.html.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	_, err := o.html.Write(b.Bytes())
	return err
}

// finish writes what is written at the end.
func (o *outputs) finish(c *report.Comparison) error {
	var err error
	if o.profile != nil {
		pprof.StopCPUProfile()
	}
	if o.html != nil {
		err = o.page(c.WriteHTML)
	}
	return errors.Join(err, o.close())
}

// close may be called again.
func (o *outputs) close() error {
	var err error
	for _, f := range []**os.File{&o.json, &o.html, &o.profile} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

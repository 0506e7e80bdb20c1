// Package doccheck keeps the documentation true: what its tests find in the
// Markdown files of the repository is held against the sources.
//
//   - Go code is quoted: it stands, line for line, in a Go file, which the tests
//     compile and, if it is an Example, run.
//   - Relative links lead to files that exist, and their anchors to headings.
//   - Commands (go run, go test) name packages that exist and flags that they
//     define.
//   - Names of tests, wherever they stand, are those of tests.
//   - Names in code spans exist: files, exported identifiers, keys of files and
//     names of metrics.
//
// What a page says in a language of a package is held to that package by its tests,
// as policies in YAML are by those of sched/policy: they get at it with Blocks.
//
// It has no use but in tests, and imports nothing of the project.
package doccheck

package doccheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stable are the packages that docs/stability.md promises to keep.
var stable = []string{"sched", "sched/policy", "sched/selector", "sched/clock", "sched/status", "sched/reload"}

// TestStablePackagesNameNoOthers: the exported names of the stable packages have
// no type in them that only an unstable package names.
func TestStablePackagesNameNoOthers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/stability.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "| `"+strings.Join(stable, "`, `")+"` | **stable**")
	for _, dir := range stable {
		for _, file := range parsed(t, dir) {
			unstable := make(map[string]bool) // by the name under which it is imported
			for _, spec := range file.Imports {
				if imported, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); own {
					unstable[path.Base(imported)] = !slices.Contains(stable, imported)
				}
			}
			for _, decl := range file.Decls {
				exported(decl, func(name string, part ast.Node) {
					ast.Inspect(part, func(n ast.Node) bool {
						if of, ok := n.(*ast.SelectorExpr); ok {
							pkg, ok := of.X.(*ast.Ident)
							assert.False(t, ok && unstable[pkg.Name], "%s: %s names %s.%s", dir, name, pkg, of.Sel)
						}
						return true
					})
				})
			}
		}
	}
}

// exported calls f with the exported parts of a declaration in which types are
// named. Aliases are left out: they give a type a stable name.
func exported(decl ast.Decl, f func(name string, part ast.Node)) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
			f(d.Name.Name, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() || s.Assign.IsValid() {
					continue
				}
				fields, ok := s.Type.(*ast.StructType)
				if !ok {
					f(s.Name.Name, s.Type)
					continue
				}
				for _, field := range fields.Fields.List {
					if len(field.Names) == 0 || field.Names[0].IsExported() {
						f(s.Name.Name, field.Type)
					}
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					f(s.Names[0].Name, s.Type)
				}
			}
		}
	}
}

func exportedReceiver(recv *ast.FieldList) bool {
	of := recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return ok && name.IsExported()
}

// parsed returns the files of a package, without its tests.
func parsed(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NotEmpty(t, files, dir)
	return files
}

// TestFloorsAreSaidTruly: where the comment of a package names its floor, it is
// the one that its imports are held to.
func TestFloorsAreSaidTruly(t *testing.T) {
	t.Parallel()
	says := regexp.MustCompile(`\b[Ff]loor (\d)`)
	said := 0
	for _, dir := range append([]string{"sched/queue", "sched/pool", "sched/sequencer", "shards", "lifecycle", "capacity"}, stable...) {
		for _, file := range parsed(t, dir) {
			if floor := says.FindStringSubmatch(file.Doc.Text()); floor != nil {
				said++
				require.Equal(t, strconv.Itoa(floorOf(dir)), floor[1], dir)
			}
		}
	}
	require.Greater(t, said, 3)
}

package doccheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Source is what the repository holds, as far as pages speak of it.
type Source struct {
	tree fs.FS
	// code holds the trimmed lines of each Go file, one string with a line break
	// before each.
	code map[string]string
	// names are all identifiers, members "Type.Member" and "package.Name".
	names map[string]bool
	types map[string]bool // exported types
	packs map[string]bool // package names
	// scripts are the names of text files, without their ending.
	scripts map[string]bool
	// flags and literals are the flags and the other strings of each directory.
	flags, literals map[string]map[string]bool
	text            strings.Builder // all that is not Markdown
	pages           []string
}

// ReadSource reads the tree of a repository.
func ReadSource(tree fs.FS) (*Source, error) {
	s := &Source{
		tree: tree, code: map[string]string{}, names: map[string]bool{}, types: map[string]bool{}, packs: map[string]bool{},
		scripts: map[string]bool{},
		flags:   map[string]map[string]bool{}, literals: map[string]map[string]bool{},
	}
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name != "." && strings.HasPrefix(name, ".") && name != ".ci" && name != ".github" {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(file) {
		case ".md":
			s.pages = append(s.pages, file)
			return nil
		case ".go", ".yaml", ".yml", ".json", ".txt", ".tmpl", ".mod", "":
		default:
			return nil
		}
		if name, ok := strings.CutSuffix(path.Base(file), ".txt"); ok {
			s.scripts[name] = true
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		s.text.Write(text)
		if path.Ext(file) == ".go" {
			return s.readGo(file, text)
		}
		return nil
	})
	return s, err
}

func (s *Source) readGo(file string, text []byte) error {
	var lines strings.Builder
	for line := range strings.Lines(string(text)) {
		lines.WriteString("\n" + strings.TrimSpace(line))
	}
	lines.WriteString("\n")
	s.code[file] = lines.String()

	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pack := parsed.Name.Name
	s.packs[pack] = true
	for _, d := range parsed.Decls {
		s.declare(pack, d)
	}
	dir := path.Dir(file)
	if s.flags[dir] == nil {
		s.flags[dir], s.literals[dir] = map[string]bool{}, map[string]bool{}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			s.names[n.Name] = true
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				s.literals[dir][value] = true
			}
		case *ast.CallExpr:
			if name, ok := flagOf(n); ok && !strings.HasSuffix(file, "_test.go") {
				s.flags[dir][name] = true
			}
		}
		return true
	})
	return nil
}

// declare notes a declaration, with the members of a type.
func (s *Source) declare(pack string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			s.names[pack+"."+d.Name.Name] = true
			return
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if index, ok := receiver.(*ast.IndexExpr); ok {
			receiver = index.X
		}
		if typ, ok := receiver.(*ast.Ident); ok {
			s.member(pack, typ.Name, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					s.names[pack+"."+name.Name] = true
				}
			case *ast.TypeSpec:
				s.declareType(pack, spec)
			}
		}
	}
}

func (s *Source) declareType(pack string, spec *ast.TypeSpec) {
	s.names[pack+"."+spec.Name.Name] = true
	if spec.Name.IsExported() {
		s.types[spec.Name.Name] = true
	}
	var fields *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			s.member(pack, spec.Name.Name, name.Name)
		}
	}
}

func (s *Source) member(pack, typ, name string) {
	s.names[typ+"."+name] = true
	s.names[pack+"."+typ+"."+name] = true
}

// flagOf returns the name of the flag that a call defines: that of package flag
// or of a flag set, which is told by the method's name.
func flagOf(call *ast.CallExpr) (name string, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	at := 0
	method, isVar := strings.CutSuffix(f.Sel.Name, "Var")
	if isVar {
		at = 1
	}
	switch method {
	case "String", "Bool", "Int", "Int64", "Uint", "Uint64", "Float64", "Duration", "Func", "BoolFunc", "Text", "":
	default:
		return "", false
	}
	if at >= len(call.Args) || len(call.Args) < 3 {
		return "", false
	}
	literal, ok := call.Args[at].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	name, err := strconv.Unquote(literal.Value)
	return name, err == nil
}

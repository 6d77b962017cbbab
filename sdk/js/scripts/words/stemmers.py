"""Snowball's stemmers for JavaScript, from those that Python has: ``python stemmers.py FOLDER``.

The modules of the package ``snowballstemmer`` are generated and have few forms. Each becomes a
program, lists in JSON, which ``src/words/stemmer.ts`` runs. Snowball's licence goes beside them.
"""

import ast
import json
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Or: "or",
}
# A number or truth value; a text, which names a variable; a list, which begins with what it does.
Node = Any


def program(source: str) -> dict[str, Node]:
    """Groups of characters, tables of endings, first values of variables, and routines."""
    tree = ast.parse(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    made: dict[str, dict[str, Node]] = {"groups": {}, "tables": {}, "values": {}, "routines": {}}
    for node in classes[0].body:  # the others are labels
        if isinstance(node, ast.FunctionDef):
            made["routines"][node.name] = block(node.body, node.name)
        elif isinstance(node, ast.Assign):
            (target,) = node.targets
            name = ast.unparse(target)
            if name.startswith("g_"):
                made["groups"][name] = "".join(sorted(ast.literal_eval(node.value)))
            elif isinstance(node.value, ast.List):
                made["tables"][name] = table(node.value)
            else:
                made["values"][name] = ast.literal_eval(node.value)
    return made


def table(node: ast.List) -> list[Node]:
    """Endings by what they mean: ``[result, routine that must hold or "", endings]``."""
    endings: dict[tuple[int, str], list[str]] = {}
    for call in node.elts:
        assert isinstance(call, ast.Call)
        ending, _, result, *method = call.args
        key = ast.literal_eval(result), ast.unparse(method[0]) if method else ""
        endings.setdefault(key, []).append(ast.literal_eval(ending))
    return [[result, method, "|".join(some)] for (result, method), some in endings.items()]


def block(nodes: list[ast.stmt], routine: str) -> list[Node]:
    return [made for node in nodes for made in statements(node, routine)]


def statements(node: ast.stmt, routine: str) -> list[Node]:
    def value(node: ast.expr | None) -> Node:
        return expression(node, routine)

    match node:
        case ast.Assign(targets=[target]):
            return [["=", value(target), value(node.value)]]
        case ast.AugAssign():
            change = [OPERATORS[type(node.op)], value(node.target), value(node.value)]
            return [["=", value(node.target), change]]
        case ast.If():
            body, orelse = block(node.body, routine), block(node.orelse, routine)
            return [["if", value(node.test), body, orelse]]
        case ast.While(test=ast.Constant(value=True), orelse=[]):
            return [["while", block(node.body, routine)]]
        case ast.For(iter=ast.Tuple(elts=rounds), orelse=[]):
            return block(node.body, routine) * len(rounds)  # none of them has a break
        case ast.Try(handlers=[ast.ExceptHandler(type=ast.Name(id=label))]):
            return [["try", number(label), block(node.body, routine)]]
        case ast.Raise(exc=ast.Call(func=ast.Name(id=label))):
            return [["raise", number(label)]]
        case ast.Return():
            return [["return", value(node.value)]]
        case ast.Expr(value=ast.Call()):
            return [value(node.value)]
        case ast.Break() | ast.Continue():
            return [[type(node).__name__.lower()]]
        case ast.Pass():
            return []
    raise ValueError(f"line {node.lineno}: {ast.unparse(node)}")


def number(label: str) -> int:
    return int(label.removeprefix("lab"))


def expression(node: ast.expr | None, routine: str) -> Node:
    def value(node: ast.expr) -> Node:
        return expression(node, routine)

    match node:
        case ast.Constant(value=str(text)):
            return ["'", text]
        case ast.Constant():
            return node.value
        case ast.Name():
            return f"{routine} {node.id}"  # no routine calls itself
        case ast.Attribute():
            return node.attr
        case ast.UnaryOp(op=ast.Not()):
            return ["not", value(node.operand)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return ast.literal_eval(node)
        case ast.BinOp():
            return [OPERATORS[type(node.op)], value(node.left), value(node.right)]
        case ast.Compare(ops=[operator], comparators=[right]):
            return [OPERATORS[type(operator)], value(node.left), value(right)]
        case ast.BoolOp(values=[left, right]):
            return [OPERATORS[type(node.op)], value(left), value(right)]
        case ast.Subscript():
            return ["at", value(node.value), value(node.slice)]
        case ast.Call(func=ast.Name(id="len"), args=[text]):
            return ["len", value(text)]
        case ast.Call(func=ast.Attribute(attr=name)) if name.startswith("__r_"):
            return ["call", name]
        case ast.Call(func=ast.Attribute(attr=name)):
            return [name, *map(value, node.args)]
    raise ValueError(ast.dump(node) if node else "nothing is returned")


def main(folder: Path) -> None:
    package = distribution("snowballstemmer")
    files = {Path(str(file)).name: Path(str(file.locate())) for file in package.files or ()}
    folder.mkdir(parents=True, exist_ok=True)
    comment = f"/*! Snowball {package.version}, BSD 3-Clause: see LICENSE */\n"
    imports = ""
    for name, path in sorted(files.items()):
        language = name.removesuffix("_stemmer.py")
        if language != name:
            made = json.dumps(
                program(path.read_text("utf-8")), ensure_ascii=False, separators=(",", ":")
            )
            quoted = made.replace("\\", "\\\\").replace("'", "\\'")
            code = f"{comment}export const program = '{quoted}';\n"
            (folder / f"{language}.js").write_text(code, "utf-8")
            imports += f'  {language}: () => import("./{language}.js"),\n'
    (folder / "stemmers.js").write_text(f"export const STEMMERS = {{\n{imports}}};\n", "utf-8")
    (folder / "LICENSE").write_bytes(files["COPYING"].read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

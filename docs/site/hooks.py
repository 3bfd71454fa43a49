"""Hooks of the documentation site: links to other files, decision records, no other hosts."""

import os
import re
import shutil

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
EXTERNAL = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\" >]*)")
# The theme loads it for pages that are opened as files.
SHIM_URL = "https://unpkg.com/iframe-worker/shim"
SHIM = "assets/javascripts/iframe-worker.js"
# Screen readers need a name of the dialog, which the theme does not give it.
SEARCH = ('data-md-component="search" role="dialog"',
          'data-md-component="search" role="dialog" aria-label="Search"')
# Marks of blocks for crates/weir/tests/readme.rs, which Markdown processors do not know.
MARK = re.compile(r"^( *```sh) (?:test|lab)$", re.MULTILINE)
FENCED = re.compile(r"^( *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown, page, config, files):
    """Replaces links to other files than pages by their text: the site does not contain them."""
    folder = os.path.dirname(page.file.src_uri)

    def replace(match):
        target = match["target"]
        if not target or ":" in target:
            return match[0]
        path = os.path.normpath(os.path.join(folder, target))
        return match[0] if files.get_file_from_path(path) else match["text"]

    # Every second part is a code block.
    parts = FENCED.split(MARK.sub(r"\1", markdown))
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def on_files(files, config):
    """Adds all decision records to the navigation before it is built."""
    records = sorted(
        file.src_uri for file in files if re.fullmatch(r"docs/decisions/\d{4}-.*\.md", file.src_uri)
    )
    explanation = next(part for part in config["nav"] if "Explanation" in part)
    explanation["Explanation"] = [
        entry for entry in explanation["Explanation"] if "Decisions" not in entry
    ] + [{"Decisions": ["docs/decisions/README.md", *records]}]
    return files


def on_post_page(output, page, config):
    """Lets a page load the shim from the site."""
    depth = page.url.count("/")
    return local(output, "../" * depth, page.url)


def on_post_template(output, template_name, config):
    """Does the same for pages without a source, such as the one for wrong addresses."""
    return local(output, "", template_name) if template_name.endswith(".html") else output


def local(output, root, name):
    """Replaces the address of the shim; raises an error if the page loads from another host."""
    output = output.replace(SHIM_URL, root + SHIM).replace(*SEARCH)
    found = EXTERNAL.findall(output)
    if found:
        raise ValueError(f"{name} loads {found}")
    return output


def on_post_build(config):
    """Adds the shim to the site."""
    shutil.copyfile(os.environ["WEIR_DOCS_SHIM"], os.path.join(config["site_dir"], SHIM))

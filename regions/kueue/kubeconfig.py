"""A context of a kubeconfig file, read by the official loader, with plugins run by us.

The rule: a file's content never stands in an error, for its entries hold tokens; the loader's own
words quote them, it logs what a plugin says, and goes on as nobody when one fails. Read ``Loader``.
"""

import os
import re
import time
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from regions.kueue.errors import AccessError
from regions.kueue.key_files import folder
from regions.kueue.plugin import Given, ask, read

EARLY_S = 300.0
"""So long before the end of its credentials a plugin is run again."""

_LACKS_NAME = re.compile(
    r"Invalid kube-config file\. Expected object with name ([\w.:/@-]{1,253})"
    r" in [^\s]{0,100}?(cluster|context|user)s list"
)
_LACKS_KEY = re.compile(r"Invalid kube-config file\. Expected key ([\w-]{1,50}) in ")
_LACKS_FILE = re.compile(r"File does not exists: (\S{1,200})")


class Loader(KubeConfigLoader):
    """The official loader, but for plugins. Its errors can quote the file: see ``refused``.

    Empty context: the file's current one. What a provider renewed stays in memory: the file is
    somebody else's.
    """

    def __init__(self, path: str, context: str) -> None:
        """Read a file that is there."""
        merged = KubeConfigMerger(path).config
        KubeConfigLoader.__init__(
            self,
            merged,
            active_context=context or None,
            config_base_path=None,
            temp_file_path=folder(),
        )
        self._folder = os.path.dirname(path)
        self._given: Given | None = None

    async def enter(self, configuration: Configuration) -> None:
        """Enter what the file says into a configuration, made anew as far as it has ended."""
        await KubeConfigLoader.load_and_set(self, configuration)

    async def load_from_exec_plugin(self) -> bool:
        """Take what the plugin gives, or gave while that holds. Raises AccessError."""
        given = self._given
        if given is not None and (given.ends_s is None or given.ends_s - time.time() > EARLY_S):
            return True
        user: Any = self._user
        given = await ask(read(getattr(user["exec"], "value", None)), self._folder)
        if given.token:
            self.token = f"Bearer {given.token}"
        if given.certificate and given.key:
            self.cert_file, self.key_file = _as_file(given.certificate), _as_file(given.key)
        self._given = given
        return True


def refused(error: Exception) -> AccessError:
    """Return what is told of a file that cannot be used: nothing that stands in it but names."""
    return AccessError(f"the kubeconfig cannot be used: {_why(error)}")


def _why(error: Exception) -> str:
    said = str(error) if isinstance(error, ConfigException) else ""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"it is no YAML from line {error.problem_mark.line + 1} on"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if found := _LACKS_NAME.match(said):
        return f"it has no {found[2]} {found[1]}"
    if found := _LACKS_KEY.match(said):
        return f"an entry of it has no {found[1]}"
    if found := _LACKS_FILE.fullmatch(said):
        return f"there is no file {found[1]}"
    return f"it has not the form of one ({type(error).__name__})"


def _as_file(pem: str) -> Any:
    entry = {"data": pem}
    return FileOrData(
        entry, None, data_key_name="data", base64_file_content=False, temp_file_path=folder()
    ).as_file()

"""AdmissionChecks and the settings of those that ask for nodes first."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.reading import Fields

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""The controller that turns a reservation into a ProvisioningRequest."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """One AdmissionCheck. ``settings_kind`` and ``settings`` name what it is configured by."""

    meta: Meta
    controller: str
    settings_kind: str
    settings: str
    conditions: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningConfig:
    """One ProvisioningRequestConfig: the class of the requests, and for what they are made.

    ``resources`` empty: for all that is asked for.
    """

    meta: Meta
    class_name: str
    parameters: Mapping[str, str]
    resources: tuple[str, ...]


def read_admission_check(fields: Fields, _: str) -> AdmissionCheck:
    """Read an AdmissionCheck; what we use of it is the same in both versions."""
    spec = fields.inner("spec")
    parameters = spec.inner("parameters")
    return AdmissionCheck(
        meta=read_meta(fields),
        controller=spec.text("controllerName"),
        settings_kind=parameters.text("kind"),
        settings=parameters.text("name"),
        conditions=read_conditions(fields.inner("status")),
    )


def read_provisioning_config(fields: Fields, _: str) -> ProvisioningConfig:
    """Read a ProvisioningRequestConfig; what we use of it is the same in both versions."""
    spec = fields.inner("spec")
    return ProvisioningConfig(
        meta=read_meta(fields),
        class_name=spec.text("provisioningClassName"),
        parameters=spec.pairs("parameters"),
        resources=spec.texts("managedResources"),
    )

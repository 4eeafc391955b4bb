"""Events: what the cluster's parts tell about our pods and about nodes."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Meta, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``last_s`` is when it was last seen, None when it does not say."""

    meta: Meta
    about_kind: str
    about_namespace: str
    about_name: str
    about_uid: str
    reason: str
    message: str
    is_warning: bool
    source: str
    count: int
    last_s: float | None


def read_event(fields: Fields, _: str) -> Event:
    """Read an event, whichever of its two generations of fields it fills."""
    about, series = fields.inner("involvedObject"), fields.inner("series")
    last_s = (
        series.time_s("lastObservedTime")
        or fields.time_s("lastTimestamp")
        or fields.time_s("eventTime")
        or fields.time_s("firstTimestamp")
    )
    return Event(
        meta=read_meta(fields),
        about_kind=about.text("kind"),
        about_namespace=about.text("namespace"),
        about_name=about.text("name"),
        about_uid=about.text("uid"),
        reason=fields.text("reason"),
        message=fields.message("message"),
        is_warning=fields.text("type") == "Warning",
        source=fields.text("reportingComponent") or fields.inner("source").text("component"),
        count=max(fields.count("count"), series.count("count"), 1),
        last_s=last_s,
    )

"""What ``elwood doctor`` does: looks for everything that would trouble the house."""

from elwood.app.doctor.examination import doctor, examine
from elwood.app.doctor.findings import Finding, table

__all__ = ["Finding", "doctor", "examine", "table"]

"""The curator service: analysts ask over HTTP; the tables, the ledger and the answers stay where they are.

| file | what is in it |
|---|---|
| `settings` | what `service.toml` says: tables, deadline, limits |
| `store` | accounts, tokens, sessions, runs and approvals, in the ledger's own database |
| `roles` | who may call what: one table, and everything else is refused |
| `policy` | what a run and a day may cost, in ε and δ |
| `access` | passwords, tokens, browser sessions |
| `oidc` | logging in by an OpenID provider |
| `requests` | what may be asked, as JSON, and how a plan is told |
| `planner` | plans in a process that can be killed |
| `jobs` | a run: row, charge, compute, store, show at the deadline |
| `workers` | which workers live |
| `curator` | `Curator`: everything that the service does, as functions that return values |
| `problems` | errors as RFC 9457 bodies, both ways |
| `app` | HTTP: limits, who asks, routes, logs |
| `pages` | HTML for browsers: who may open a page is in `roles`, what it does in `curator` |
| `forms` | fields of a form, as requests, and back |
| `rendering` | templates, the style sheet and the script, charts of answers |
| `client` | `dn.connect`: a session whose tables are elsewhere; needs the standard library alone |

The order that keeps it sound: the run has a row before it is charged, it is charged before anything is computed, and
only what is stored is ever shown. A key pays once (`plan.pay`), so a charge has one answer at most; an answer that was
lost is paid anew. Answers, and errors after the charge, appear at times that do not depend on the data but for eight
possible ones (`jobs`).
"""

from deniable.service.client import RemotePlan, RemoteSession, connect

__all__ = ["RemotePlan", "RemoteSession", "connect"]

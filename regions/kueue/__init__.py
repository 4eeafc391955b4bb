"""One Kubernetes cluster with Kueue, behind the port.

It sees what others hold and what is ahead, starts gangs as JobSets, and needs no right over the
queues that it uses. The start itself is decided in the region's store.

    cluster.py      the port, put together; read it first
    access.py       one client per cluster, a deadline on everything; credentials.py, errors.py;
                    key_files.py: keys that have to be files, gone with their process
    discovery.py    which API versions are served, and what we may do
    watching.py     the informer: pages, watch, bookmarks; one class for every kind
      source.py     where its pages and lines come from; cache.py: what it keeps, what changed
    sight.py        all that is watched of a cluster; snapshot.py: what is known of it, how well
    objects/        hostile JSON to frozen values
    quota.py        what a queue could still reserve, through its cohorts; drift.py: lost quota
    ahead.py        who stands before a workload in its queue
    flavors.py      what a flavor is; accelerators.py: names; machines.py: what its nodes could hold
    queue_view.py   queues and flavors as the port shows them; priced.py: what they cost

What becomes of our gangs, from that:

    survey.py       all that is known, gathered when something changed
    scene.py        which of it is about which gang
    members.py      their processes, remembered: gone on positive evidence only; calm.py: which
                    gangs need not be looked at in the store at once
    put_out.py      which of them their cluster put out, and for how long that is said;
                    hindrance.py: what was in the way of those that were late
    views.py        gangs as the port shows them; gate_view.py: who of them stands at the gate;
                    at_rest.py: those of which nothing is new; unstarted.py: the end of those that
                    had not started; signals.py: what is learned of capacity from them; eta.py: when
                    it is said to come

What is done, and read:

    orders.py       actions as calls; sites.py: where an order is to run; apart.py: its enclave;
                    raising.py: who was refused the priority of its run
    upkeep.py       what looks find to be done, beside them
    logs.py         the output of a rank, from any position on

What is sent for a gang, all of it pure:

    manifest.py   an order to queue as objects, and the order in which they are created
      names.py    what they are called, and the labels that say whose they are
      pod.py      the process of a rank; environment.py: what it is told; landing.py: on which
                  machines; enclave.py: what it reaches; refusals.py: what is not sent at all
      site.py     what of a cluster and a flavor shapes them; profiles.py: what ops lay over them,
                  profile_parts.py: the same in words

What is said of a gang, all of it pure:

    explanation.py  from all that is told of it to the one verdict
      vocabulary.py   every word; words.py and words_*.py: what each means
      *_hearing.py    which of a cluster's own words are which of ours
"""

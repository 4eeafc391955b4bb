"""What one GPU costs for an hour, by machine, capacity type and region; and a GiB between two.

The rule: a price is the sum of all that a machine is billed for, and where a part of it is missing,
doubtful or told twice there is none. A price carries its date, and one that is old says so.

    sku.py          an entry of the billing catalog as a frozen value
    reading.py      from Google's message to that, or why not
    naming.py       what an entry is for: its description first, its usage type second
    tariffs.py      from entries to one rate per part and region: the smallest geography wins
    summing.py      from rates to machines
    book.py         a book of prices with its date: what is kept and asked
    terms.py        ops' contract over a book: factors, reservations that are paid already
    egress.py       what a GiB costs on its way from one location to another
    filing.py       a book on disk
    shipped.py      list prices that come with the program, each with its source and date
    catalog.py      the billing catalog, page by page (imports Google's client)
    keeping.py      which book is in force: the one on disk, a new one when it is due
"""

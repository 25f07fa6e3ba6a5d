"""What every adapter must do, written once: against the provider Protocol and the ERP Protocol.

A new adapter gets all of it with a class of about ten lines in a list: `COUNTERPARTS` in
`providers.py`, or `ERPS` in `erps.py`. The class says how to start the counterpart, how to make a
captured payment there, what it lists as money out, what it promises. Faults come from the fault
proxy in between, so nothing has to be built into the counterpart:

    class Example(ProviderCounterpart):
        name = "example"
        adapter = "example"                     # its name in PAYMENT_PROVIDERS
        capabilities = BY_PROVIDER["example"]   # what this server really does
        pays, looks_up = r"^POST /refunds", r"^GET /refunds"

        @contextmanager
        def running(self) -> Iterator[str]:
            with ForeignServer([sys.executable, "-m", "example_server"], {}).running() as server:
                yield server.url

        def settings(self, url: str) -> Json:
            return {"EXAMPLE_URL": url}

        def capture(self, amount_minor: int, currency: str) -> str:
            facts = {"amount": amount_minor, "currency": currency}
            return httpx.post(f"{self.url}/payments", json=facts).json()["id"]

        def money_out(self, payment: str) -> list[MoneyOut]:
            refunds = httpx.get(f"{self.url}/payments/{payment}/refunds").json()
            return [MoneyOut(reference=refund["id"], ...) for refund in refunds]

    test_provider_contract.py   the adapter alone: what each thing that can happen is taken to mean
    test_provider_protocol.py   the whole product with it: one money-out per key, whatever is lost
    test_erp_contract.py        the same for an ERP's adapter
    test_erp_protocol.py        the same for its credits: one posted entry per refund
    test_foreign_servers.py     what the servers that others wrote do, and where they listen
"""

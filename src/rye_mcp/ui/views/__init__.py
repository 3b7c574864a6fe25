"""The views of the page, one module each: from what verbs answer to markup."""

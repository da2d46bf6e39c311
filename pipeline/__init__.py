"""The learned-metric pipeline of BLEURT (Sellam et al., ACL 2020), stage by stage."""

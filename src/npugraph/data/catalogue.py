"""The table of known graphs: what each file must hash to, its licence, and where it comes from.

Nothing is read or downloaded here; `npugraph.data.datasets` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SPLIT_FILES = ("train.tsv", "valid.tsv", "test.tsv")

KGE = (
    "https://raw.githubusercontent.com/DeepGraphLearning/KnowledgeGraphEmbedding/"
    "617062aaedf53bf4d6b44450a580a96dc30e0632/data"
)
PYKEEN = "https://raw.githubusercontent.com/pykeen/pykeen/v1.11.1/src/pykeen/datasets"
CODEX = "https://raw.githubusercontent.com/tsafavi/codex"
CODEX_FACTS = f"{CODEX}/e805ea2f512d7f0f8e44f213bc4db51dac0de118/data/triples/codex-s"
CODEX_NEGATIVES = f"{CODEX}/52cd012200f2c4c19f214c4276dca7d69052a419/data/triples/codex-s"
UKGE = (
    "https://raw.githubusercontent.com/stasl0217/UKGE/"
    "99e2b01192380fa99aba6ee9fbd0b5ab34b5b16e/data/nl27k"
)


@dataclass(frozen=True)
class FileInfo:
    """One file of a graph.

    Attributes:
        sha256: of its uncompressed bytes, with LF line ends.
        rows: lines of the file.
        url: a public plain copy, or None where there is none.
        crlf: whether that copy ends its lines with CR LF; the CR is dropped on download.
    """

    sha256: str
    rows: int
    url: str | None = None
    crlf: bool = False


@dataclass(frozen=True)
class DatasetInfo:
    """One graph of the catalogue.

    Attributes:
        name: how commands call it.
        title: how papers call it.
        description: what it holds and what to know before using it.
        licence: as stated by the source; upstream terms where they differ.
        source: where the files come from, in a sentence.
        files: file name -> FileInfo; the three splits and any extras (labels, negatives).
        entities: distinct entities over all splits.
        relations: distinct relations over all splits.
        columns: columns of the split files, without a header; `confidence` lies in [0, 1].
    """

    name: str
    title: str
    description: str
    licence: str
    source: str
    files: Mapping[str, FileInfo]
    entities: int
    relations: int
    columns: tuple[str, ...] = ("head", "relation", "tail")

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each split: train, valid, test."""
        return {name.removesuffix(".tsv"): self.files[name].rows for name in SPLIT_FILES}

    @property
    def extras(self) -> tuple[str, ...]:
        """Files besides the splits, such as entity labels."""
        return tuple(name for name in self.files if name not in SPLIT_FILES)

    @property
    def has_confidence(self) -> bool:
        """Whether each fact carries a confidence as its fourth column."""
        return "confidence" in self.columns

    @property
    def downloadable(self) -> bool:
        """Whether all three splits have a public copy."""
        return all(self.files[name].url is not None for name in SPLIT_FILES)


def _splits(
    base: str | None,
    names: tuple[str, str, str],
    *files: FileInfo,
    crlf: bool = False,
) -> dict[str, FileInfo]:
    """Give train, valid and test their addresses: `base`/`name` for each of `names`."""
    return {
        split: FileInfo(file.sha256, file.rows, f"{base}/{name}" if base else None, crlf)
        for split, name, file in zip(SPLIT_FILES, names, files, strict=True)
    }


TXT = ("train.txt", "valid.txt", "test.txt")
WORDNET = "WordNet 3.0 licence (Princeton): free to use, copy, modify and distribute with notice"
FREEBASE = "Freebase data (CC BY by its publisher); the files carry no licence text of their own"
WORDNET_LABELS = FileInfo("524aa0fe0fd91d54adef0df29b1f6cb6711bce31cd99ca98788748e78c97177e", 40943)

_INFOS = (
    DatasetInfo(
        name="fb15k",
        title="FB15k",
        description=(
            "General facts from Freebase with many relation types. Many test facts are the "
            "inverse of a training fact."
        ),
        licence=FREEBASE,
        source="Bordes et al. 2013; files as in DeepGraphLearning/KnowledgeGraphEmbedding.",
        files={
            **_splits(
                f"{KGE}/FB15k",
                TXT,
                FileInfo(
                    "f9cdfd2685f6483bd3a499d433919b15d62f0715c6cf18b2ca30c2aa5c47a704", 483142
                ),
                FileInfo("471929cde9cf74b1caa8348c2b601c8010d6b2f2a56bae49b4ebfd14c9bce855", 50000),
                FileInfo("5b60b4de325482c3368e22d0b7452d465b09a610fea0ce3768d8b1e8b5a7e42a", 59071),
            ),
            "entity_labels.tsv": FileInfo(
                "00c9c42b785a8e89051d9ee0d799d62888faa0375a0e0cde8e0c38519a5856b7", 14951
            ),
        },
        entities=14951,
        relations=1345,
    ),
    DatasetInfo(
        name="fb15k-237",
        title="FB15k-237",
        description=(
            "FB15k without inverse relations. 8 entities of valid and 29 of test are not in train."
        ),
        licence=FREEBASE,
        source=("Toutanova and Chen 2015; files as in DeepGraphLearning/KnowledgeGraphEmbedding."),
        files={
            **_splits(
                f"{KGE}/FB15k-237",
                TXT,
                FileInfo(
                    "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a", 272115
                ),
                FileInfo("749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9", 17535),
                FileInfo("e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b", 20466),
                crlf=True,
            ),
            "entity_labels.tsv": FileInfo(
                "bf4847a01b521ce104b7130892c5ab6771c7f5ff5a260a9f97d12b2ee23b519c", 14541
            ),
        },
        entities=14541,
        relations=237,
    ),
    DatasetInfo(
        name="wn18",
        title="WN18",
        description=(
            "Relations between WordNet synsets. Ids lack the part of speech, so 161 of them stand "
            "for several synsets; many test facts are the inverse of a training fact."
        ),
        licence=WORDNET,
        source="Bordes et al. 2013; files as in DeepGraphLearning/KnowledgeGraphEmbedding.",
        files={
            **_splits(
                f"{KGE}/wn18",
                TXT,
                FileInfo(
                    "24c9b02dc57d3ae8ca8467ce355995edee7be8eddc3bd070ee34d3c6fc3c95eb", 141442
                ),
                FileInfo("13347bfb5e17d1cae003e0bfe29b4716d3ab748e8cfb6af997138d37da3a51dc", 5000),
                FileInfo("d22c19d176d4ba6a6f0d0c6bfce39ab3c16e3b20e1df6f9efe0d9ed86542fa10", 5000),
            ),
            "entity_labels.tsv": WORDNET_LABELS,
        },
        entities=40943,
        relations=18,
    ),
    DatasetInfo(
        name="wn18rr",
        title="WN18RR",
        description=(
            "WN18 without inverse relations. 198 entities of valid and 209 of test are not in "
            "train."
        ),
        licence=WORDNET,
        source="Dettmers et al. 2018; files as in DeepGraphLearning/KnowledgeGraphEmbedding.",
        files={
            **_splits(
                f"{KGE}/wn18rr",
                TXT,
                FileInfo("038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df", 86835),
                FileInfo("453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab", 3034),
                FileInfo("0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5", 3134),
            ),
            "entity_labels.tsv": WORDNET_LABELS,
        },
        entities=40943,
        relations=11,
    ),
    DatasetInfo(
        name="codex-s",
        title="CoDEx-S",
        description=(
            "Wikidata facts with checked negatives for valid and test, which show a known false "
            "fact apart from an unknown one. Entity labels are partial (1,131 of 2,034)."
        ),
        licence="MIT (repository); Wikidata is CC0",
        source="Safavi and Koutra 2020; files as in tsafavi/codex.",
        files={
            **_splits(
                CODEX_FACTS,
                TXT,
                FileInfo("64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59", 32888),
                FileInfo("3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c", 1827),
                FileInfo("27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1", 1828),
            ),
            "valid_negatives.tsv": FileInfo(
                "c1d84860d6ee786419f1f118d0e9479c6614283b3e267afc158734389036901f",
                1827,
                f"{CODEX_NEGATIVES}/valid_negatives.txt",
            ),
            "test_negatives.tsv": FileInfo(
                "d3fb32c41f3be26d09484ace571965806f1ade0ca712551b0de684c283cdbb22",
                1828,
                f"{CODEX_NEGATIVES}/test_negatives.txt",
            ),
            "entity_labels.tsv": FileInfo(
                "f5f868999186b2b3ec92633a52848de087c4342d5b044f64997dea1692176a2f", 1131
            ),
            "entity_types.tsv": FileInfo(
                "4040686b9e81e08eaf6fa07db73f888299cd658afae1ca224c27a27f97636126", 3294
            ),
            "relation_labels.tsv": FileInfo(
                "a1635775cc8e6f609c3718b8e3813f93bb7172a3b75be7c37fbad0b9cb9fdb9f", 42
            ),
        },
        entities=2034,
        relations=42,
    ),
    DatasetInfo(
        name="nl27k",
        title="NL27K",
        description=(
            "NELL facts, each with the confidence of the extractor in (0.1, 1). 4 relations of "
            "valid and 8 of test are not in train."
        ),
        licence="NELL data (CMU); the repository has no licence file",
        source="Chen et al. 2019 (UKGE); files as in stasl0217/UKGE.",
        files=_splits(
            UKGE,
            ("train.tsv", "val.tsv", "test.tsv"),
            FileInfo("9d272dd09f2cbb5bd4246b8ad8cce46e904fee8719ebbac9e2c8cba662a10772", 149100),
            FileInfo("82524b5c7eb8db5eebb8320e9d5888bccdd9b3057459a2c731be00837bd0b401", 12278),
            FileInfo("7758db4df5df9e474cc4856a5e29333cfa9a3612cc75faf4993c1bfd3a53a330", 14034),
        ),
        entities=27221,
        relations=417,
        columns=("head", "relation", "tail", "confidence"),
    ),
    DatasetInfo(
        name="twitter-ego",
        title="Twitter-ego, two relations",
        description=(
            "Which user used which hashtag and mentioned which account: users with 5 or more "
            "edges, hashtags and accounts with 10 or more. Stands in for the paper's Twitter "
            "graph, which is not public."
        ),
        licence="as the Twitter ego networks it was cut from",
        source="A cut of the Twitter ego networks made for this package, with its own split.",
        files=_splits(
            None,
            TXT,
            FileInfo("6bc3fd2d248f18da2a85b147e5efa399beb5ced5423c6321fffc2dd9b2f70d68", 506412),
            FileInfo("767e961897c43b7f72173429ce6a62ddbe5edf51c42e4c6221e5a555c0bff34e", 28133),
            FileInfo("ce94346e71d37c5894d21067d393fb14e94bfc2c3b54fb46f5aee741d3e8e089", 28133),
        ),
        entities=58903,
        relations=2,
    ),
    DatasetInfo(
        name="umls",
        title="UMLS",
        description="The semantic network of the Unified Medical Language System; readable names.",
        licence="MIT (repository); data via Kemp et al. 2006",
        source="Kemp et al. 2006; files as in pykeen/pykeen 1.11.1.",
        files=_splits(
            f"{PYKEEN}/umls",
            TXT,
            FileInfo("873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35", 5216),
            FileInfo("025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e", 652),
            FileInfo("a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014", 661),
        ),
        entities=135,
        relations=46,
    ),
    DatasetInfo(
        name="kinships",
        title="Kinships",
        description="Kinship terms between members of the Alyawarra tribe; names are numbered.",
        licence="MIT (repository); data via Kemp et al. 2006",
        source="Kemp et al. 2006; files as in pykeen/pykeen 1.11.1.",
        files=_splits(
            f"{PYKEEN}/kinships",
            TXT,
            FileInfo("738612111a6acf0e39662bde24c7e72a4d1edf20931beea077da367dda689731", 8544),
            FileInfo("c56f8630a583178b1e569f11a64aa535ae1ce0b0912d8b1e24716be2b37f04da", 1068),
            FileInfo("05e5733265761d55be9c05bfaff5a8d0808df46f9c1e9d66cc3f2fe114e43d88", 1074),
        ),
        entities=104,
        relations=25,
    ),
    DatasetInfo(
        name="nations",
        title="Nations",
        description="Relations between 14 countries; the smallest graph here.",
        licence="MIT (repository); data via Kemp et al. 2006",
        source="Kemp et al. 2006; files as in pykeen/pykeen 1.11.1.",
        files=_splits(
            f"{PYKEEN}/nations",
            TXT,
            FileInfo("0830fa9da8e5bba2ccdaa45b7bdc9130451ba66b09ff2708f35fccaf82473e57", 1592),
            FileInfo("2b337a62e51a2f45c283eac98a70d21b7e0e102136be1539b2a52c652a7b0530", 199),
            FileInfo("3971085165b47b6aeaec68058c6d8d98b3005e929db81268410b95ae4db770ab", 201),
        ),
        entities=14,
        relations=55,
    ),
    DatasetInfo(
        name="countries",
        title="Countries-S1",
        description=(
            "Neighbours and regions of countries; readable names. Train repeats one fact and has "
            "one self loop."
        ),
        licence="MIT (repository); the list of countries is ODbL upstream",
        source="Bouchard et al. 2015; files as in DeepGraphLearning/KnowledgeGraphEmbedding.",
        files=_splits(
            f"{KGE}/countries_S1",
            TXT,
            FileInfo("5256bf3fc4181d7e87d819571e3acfa5425fc5af365b9ebe5c113740534ca561", 1111),
            FileInfo("f4b27648148a44f87e627140ec3a02ca4c884c32d348591147ca72f1d6fff5b0", 24),
            FileInfo("262ca5ae5ed3aa1927026e0f258cc52b10830185b93465b93b9360727e719158", 24),
        ),
        entities=271,
        relations=2,
    ),
    DatasetInfo(
        name="wordnet-animals",
        title="WordNet animals",
        description=(
            "All animals of WordNet 3.0 and what they belong to; readable names, one direction "
            "of each relation only."
        ),
        licence=WORDNET,
        source="A cut of WordNet 3.0 made for this package, with its own split.",
        files=_splits(
            None,
            TXT,
            FileInfo("e862de445a5f8363efcb5ff530c0e67dd81a0d024f2d6ba0f0be76f73114787f", 6516),
            FileInfo("d1f509c4bcea702520c52277954fc94f4746ca09fb1d08e7d47d3369e86a517e", 362),
            FileInfo("093178c0d626de9c6ebba6aa5baf7a08b0942b9d71793aa27017724192ba99b3", 362),
        ),
        entities=6565,
        relations=7,
    ),
)
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType({info.name: info for info in _INFOS})

"""The sentences in French."""

from __future__ import annotations

from dataclasses import replace

from deniable.explaining.labels import Labels
from deniable.explaining.texts import Texts
from deniable.units import Relation

_LABELS = Labels(
    guessing="au hasard",
    false_positives="accusés à tort",
    false_negatives="non trouvés",
    odds="Publications qui vous désigneraient",
    odds_without="sans vous",
    odds_with="avec vous",
    odds_count="{name} : {many} sur {of}",
    odds_alt="Deux tableaux de 100 figures. {without} sur {of} sont sombres sans vous, {with_you} sur {of} avec vous.",
    tradeoff="Ce qu'un test sur une personne peut obtenir",
    tradeoff_alt="Non trouvés selon accusés à tort ; plus près du hasard, la protection est meilleure.",
    tradeoff_alt_line="{name} : avec 10 % d'accusés à tort, au moins {missed} % ne sont pas trouvés.",
    profile="La courbe de confidentialité",
    profile_alt="δ selon ε ; plus bas, la protection est meilleure.",
    profile_alt_line="{name} : ε vaut {epsilon} à δ = {delta}.",
    belief="De la croyance d'avant à celle d'après",
    belief_before="croyance avant",
    belief_after="croyance après",
    belief_most="après, au plus",
    belief_almost="après, au plus, sauf pour {failure} des résultats",
    belief_same="rien appris",
    belief_alt="Croyance après selon croyance avant. 10 % deviennent au plus {most} %.",
    comparison="Ce que coûtent k étapes, chacune {step}",
    comparison_steps="nombre d'étapes k",
    comparison_cost="ε à δ = {delta}",
    comparison_estimate="{theorem} (estimation)",
    comparison_alt="ε selon le nombre d'étapes, une ligne par théorème.",
    comparison_alt_line="{theorem} : {epsilon} à k = {count}.",
    loss="La perte de confidentialité et sa limite normale",
    loss_axis="perte ln P/Q",
    loss_line="perte",
    loss_normal="loi normale de mêmes moyenne et variance (estimation)",
    loss_alt="La densité de la perte, de moyenne {mean} et d'écart type {deviation}, à côté de la loi normale.",
    density="densité",
    threshold="Un test qui décide par un seuil",
    threshold_axis="ce que voit le test, en écarts types du bruit",
    threshold_without="sans vous",
    threshold_with="avec vous",
    threshold_line="seuil à {at}",
    threshold_alt=(
        "Deux lois normales distantes de {mu}. Au-dessus du seuil {at}, le test dit que vous avez participé"
        " : faux positifs {positives}, faux négatifs {negatives}."
    ),
    promise_response="réponse aléatoire",
    promise_laplace="bruit de Laplace",
    promise_gaussian="bruit gaussien",
    promise_sampled="1 000 pas gaussiens sur un centième",
    forms="Ce que coûtent {count} étapes, chacune {step}",
    forms_alt="ε selon chaque théorème.",
    accuracy="Précision et confidentialité",
    accuracy_axis="erreur, au plus",
    accuracy_line="{many} personnes",
    accuracy_alt="L'erreur promise selon ε, une ligne par nombre de personnes.",
    accuracy_alt_line="{many} personnes : {error} à ε = {epsilon}.",
    charges="Débits au fil du temps",
    charges_day="débits par jour (UTC)",
    charges_alt="Débits par jour.",
    charges_alt_bar="{day} : {many}.",
    values_intervals="avec des intervalles à {confidence} %",
    values_first="{name} (les {shown} premiers sur {all})",
    values_alt_row="{name} : {value}, de {low} à {high}.",
    audit="Un audit : {verdict}",
    verdicts={"refuted": "réfuté", "consistent": "non réfuté"},
    audit_claimed="affirmé",
    audit_measured="mesuré, au moins",
    audit_alt="ε à plusieurs δ.",
    audit_alt_point="À δ = {delta} : affirmé {claimed}, mesuré au moins {lower}.",
    audit_alt_verdict="Verdict : {verdict}.",
    audit_finding="audité : ε ≥ {lower} à δ = {delta}",
    audit_above="affirmé : tout test est sur la courbe ou au-dessus",
    audit_below="{finding} : un test est sur la courbe ou au-dessous",
    audit_tradeoff_alt=(
        "Non trouvés selon accusés à tort, pour des tests sur une personne. À δ = {delta} on affirme ε ≤ {claimed} ;"
        " {finding}."
    ),
)

_SINGLE = Texts(
    language="fr",
    units={
        "": "une personne",
        "row": "une ligne",
        "record": "un enregistrement",
        "group": "un groupe de {members} personnes",
    },
    changes={
        Relation.ADD_REMOVE: "{unit} de plus ou de moins",
        Relation.REPLACE: "{unit} remplacée par une autre",
        Relation.ZERO_OUT: "{unit} mise à blanc",
    },
    statistics={
        "count": "des effectifs",
        "sum": "des sommes",
        "average": "des moyennes",
        "quantile": "des quantiles",
        "spread": "des mesures de dispersion",
    },
    one_in="un sur {many}",
    someone="quelqu'un qui sait tout le reste",
    belief={
        Relation.ADD_REMOVE: "que vous avez participé",
        Relation.REPLACE: "que votre réponse est celle qu'on soupçonne",
        Relation.ZERO_OUT: "que vos données ont été utilisées",
    },
    odds={
        Relation.ADD_REMOVE: (
            "Si vous ne participez pas, {without} publications possibles sur {of} feraient croire à"
            " {observer} {belief} ;"
            " si vous participez, {with_you} sur {of}."
        ),
        Relation.REPLACE: (
            "Si ce n'est pas le cas, {without} publications possibles sur {of} feraient croire à {observer} {belief} ;"
            " si c'est le cas, {with_you} sur {of}."
        ),
        Relation.ZERO_OUT: (
            "Si vos données restent vides, {without} publications possibles sur {of} feraient croire à {observer}"
            " {belief} ; sinon, {with_you} sur {of}."
        ),
    },
    odds_rest="Une telle publication renforce la croyance ; les autres l'affaiblissent ou la laissent telle quelle.",
    odds_about="Chacun des deux nombres peut s'écarter de {give_or_take}.",
    odds_own="Ces nombres sont ceux du bruit qui est réellement ajouté.",
    odds_any=(
        "Ce sont les nombres de la pire méthode qui tient la promesse. La méthode employée peut en"
        " avoir d'autres ; pour"
        " aucune les deux nombres ne sont plus éloignés."
    ),
    odds_most="Avant l'arrondi : au plus {most} suppositions sur 100 sont justes, avec une pièce 50.",
    prior=("Qui était sûr à {prior} % au sujet d'{unit} l'est ensuite entre {least} % et {most} %, quoi qu'on publie."),
    prior_almost=(
        "Qui était sûr à {prior} % au sujet d'{unit} l'est ensuite au plus à {most} %, sauf pour au plus {failure} des"
        " publications possibles."
    ),
    prior_falls="La croyance peut aussi baisser, jusqu'à {least} %, avec autant d'exceptions.",
    no_bound=(
        "Pour chaque publication prise à part, aucune limite sous 100 % ne peut être promise ; pour"
        " presque toutes, oui."
    ),
    unit_row="Chaque ligne est protégée pour elle-même. Une personne qui a beaucoup de lignes l'est moins.",
    unit_person="La promesse porte sur tout ce qu'apporte {unit}, toutes les lignes ensemble.",
    relation={
        Relation.ADD_REMOVE: "Elle compare les données aux mêmes données avec {unit} de moins ; même leur nombre est"
        " protégé.",
        Relation.REPLACE: "Elle compare les données aux mêmes données où {unit} a d'autres valeurs ; leur nombre est"
        " public.",
        Relation.ZERO_OUT: "Elle compare les données aux mêmes données où {unit} est vide ; leur nombre est public.",
    },
    delta_zero="δ = 0 : la promesse vaut pour chaque résultat.",
    delta=(
        "δ = {delta} n'est pas la probabilité d'une fuite. Il dit de combien un test peut dépasser"
        " la limite que fixe ε."
        " Lu comme une probabilité : avec au moins {kept}, les chances d'un attaquant ({unit}) ne sont pas multipliées"
        " par plus de {factor}."
    ),
    refuted="Un audit a réfuté cette promesse. Ce qui suit est ce qui était affirmé, et cela ne tient pas.",
    covers_budget="Elle couvre tout ce qui est publié sous cette promesse, pris ensemble, et rien d'autre.",
    covers_this="Elle couvre cette seule chose. Ce qu'on publie d'autre sur les mêmes personnes s'y ajoute.",
    not_population=(
        "Ce qui est vrai des gens en général n'est pas caché. Une étude peut montrer que fumer nuit,"
        " et cela dit quelque"
        " chose de tous les fumeurs, qu'ils aient participé ou non."
    ),
    not_told="Ce que quelqu'un dit, publie ou confie à d'autres hors de ces données n'est pas protégé.",
    not_true="Elle ne dit pas si les nombres publiés sont justes. Les intervalles à côté le disent.",
    advantage=(
        "Aucun test ne distingue les deux cas avec un avantage (trouvés moins accusés à tort) de plus de {advantage}."
    ),
    caught="Un test qui accuse {false} des absents trouve au plus {true} des présents.",
    method="ε et δ sont la borne supérieure prouvée du calcul : {method}.",
    heading_refuted="Réfuté",
    heading_promise="Ce qui est promis",
    heading_you="Ce que cela signifie pour vous",
    heading_numbers="En chiffres",
    heading_delta="Ce que signifie δ",
    heading_not="Ce qui n'est pas promis",
    heading_scope="Qui est protégé, et contre quoi",
    heading_facts="Données",
    page_title="Comment {unit} est protégée dans ce qui est publié",
    page_intro=(
        "Ce qui est publié ici a été calculé avec un bruit aléatoire, qui limite ce qu'on peut apprendre sur {unit}."
        " Cette page dit combien, pour qui, et ce qu'il faut savoir d'autre."
    ),
    page_refuted="Réfuté : {promise}",
    page_released="Les nombres publiés",
    page_releases="Ce qui a été publié",
    page_release="{day} : {what}",
    page_statistics="{statistics} tirés d'une table",
    page_and="{first} et {last}",
    page_question="la question",
    page_redacted="la question, sans noms ni valeurs",
    page_technical="Détails techniques",
    page_facts="données",
    page_datasheet="Fiche : les questions que pose NIST SP 800-226",
    page_attacker="Ce qu'un attaquant peut obtenir au plus",
    page_promise="cette promesse",
    page_done="ce qui a été fait",
    page_charged="Ce qui a été débité, et pour quoi",
    page_each=(
        "Chaque ligne dit ce qu'un débit coûterait à lui seul. Le budget ci-dessus les couvre tous"
        " ensemble ; les lignes"
        " n'en sont pas les parts."
    ),
    page_earlier="Les {less} premiers débits ne figurent pas ici ; le registre les a.",
    page_columns=("date (UTC)", "qui", "objet", "événement", "à lui seul", "calculé par"),
    page_audits="Audits",
    page_claimed="affirmé : {promise}",
    page_edges="Points de vigilance",
    page_curator="responsable",
    page_use="usage",
    page_footer="Écrit par deniable {version} le {when}. Aucune valeur de cette page n'est privée.",
    edge_row="L'unité est une ligne. Une personne qui a beaucoup de lignes est moins protégée, ligne par ligne.",
    edge_claimed="Une partie est inscrite comme promesse, non comme bruit tiré ; elle repose sur qui l'a faite.",
    edge_sampled="L'échantillonnage compte comme protection. Les enregistrements tirés doivent rester secrets.",
    edge_shuffled="Le mélange compte comme protection. Qui mélange ne doit pas dire qui a envoyé quoi.",
    edge_floats="Le bruit continu est calculé en virgule flottante. Sa loi affichée est celle des nombres réels.",
    edge_local=(
        "Les réponses aléatoires protègent aussi de qui les recueille, tant que la vérité ne quitte pas la personne."
    ),
    edge_size="Le nombre de personnes est considéré comme public.",
    sheet={
        "parameters": ("Quelle promesse, avec quels paramètres ?", "{promise}."),
        "unit": ("Qui protège-t-elle : qu'est-ce qu'une unité ?", "{scope}"),
        "neighbours": ("Que cache-t-elle : quelles données sont voisines ?", "{neighbours}"),
        "meaning": (
            "Que signifie le paramètre pour une personne ?",
            "Qui trouve également probable qu'{unit} soit présente ou non a raison au plus {most} fois sur 100.",
        ),
        "composition": ("Couvre-t-elle tout ce qui est publié à partir de ces données ?", "{covers}"),
        "releases": ("Combien de publications jusqu'ici ?", "{releases}, chacune débitée avant d'être calculée."),
        "algorithms": ("Quels mécanismes ont été employés ?", "{mechanisms}"),
        "sensitivity": (
            "Comment l'influence d'une unité est-elle limitée ?",
            "Par des limites qui ne dépendent pas des données : ce qui compte d'une unité, et des plages de valeurs. Ce"
            " qui dépasse est laissé de côté ou ramené à la limite ; le bruit couvre le reste.",
        ),
        "numbers": (
            "Le bruit et le calcul sont-ils justes sur ordinateur ?",
            "Les réponses sont des entiers exacts avec un bruit discret exact ; le hasard vient de la source sûre du"
            " système. {floats}",
        ),
        "channels": (
            "Que révèlent le temps, les erreurs, les fichiers ?",
            "Les refus et les messages ne dépendent pas des données. La durée d'une réponse n'est pas couverte.",
        ),
        "utility": (
            "Quelle est la précision des résultats, et comment le sait-on ?",
            "Chaque nombre a un intervalle, calculé à partir du bruit et de rien de privé.",
        ),
        "bias": (
            "Les résultats peuvent-ils être biaisés ?",
            "Limites et plages coupent ce qui dépasse ; chaque publication dit ce que couvrent ses intervalles.",
        ),
        "trust": (
            "À qui faut-il faire confiance : modèle central ou local ?",
            "Central : le responsable détient les données ({curator}).{local}",
        ),
        "access": (
            "Qui a accès aux données et au registre ?",
            "Qui peut lire les fichiers. L'accès relève du responsable ; il n'est pas consigné ici.",
        ),
        "collection": ("Comment les données ont-elles été recueillies ?", "Non consigné ici ; demandez ({curator})."),
        "audits": ("L'affirmation a-t-elle été éprouvée ?", "{audits}"),
        "software": ("Avec quel logiciel ?", "deniable {version}. {method}."),
    },
    sheet_none="Rien n'est consigné ici.",
    sheet_tested="Audits sur cette page : {many}, dont réfutés : {refuted}.",
    labels=_LABELS,
    groups=None,
)

_GROUPS = replace(
    _SINGLE,
    belief={
        Relation.ADD_REMOVE: "que votre groupe a participé",
        Relation.REPLACE: "que les réponses de votre groupe sont celles qu'on soupçonne",
        Relation.ZERO_OUT: "que les données de votre groupe ont été utilisées",
    },
    odds={
        Relation.ADD_REMOVE: (
            "Si personne de votre groupe ne participe, {without} publications possibles sur {of} feraient croire à"
            " {observer} {belief} ; si tous participent, {with_you} sur {of}."
        ),
        Relation.REPLACE: _SINGLE.odds[Relation.REPLACE],
        Relation.ZERO_OUT: (
            "Si les données de votre groupe restent vides, {without} publications possibles sur {of} feraient croire à"
            " {observer} {belief} ; sinon, {with_you} sur {of}."
        ),
    },
    unit_row="Les lignes du groupe ({unit}) sont protégées ensemble. Une personne qui en a davantage l'est moins.",
    unit_person=(
        "La promesse porte sur tout ce qu'apporte {unit}, toutes les lignes ensemble, et sur tout groupe plus petit."
    ),
    heading_you="Ce que cela signifie pour vous et votre groupe",
    page_title="Comment {unit} est protégé dans ce qui est publié",
    edge_row="L'unité est un groupe de lignes. Une personne qui en a davantage est moins protégée.",
    labels=replace(
        _LABELS,
        odds="Publications qui désigneraient votre groupe",
        odds_without="sans votre groupe",
        odds_with="avec votre groupe",
        tradeoff="Ce qu'un test sur un groupe peut obtenir",
    ),
)

TEXTS = replace(_SINGLE, groups=_GROUPS)
